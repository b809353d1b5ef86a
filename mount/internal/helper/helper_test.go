package helper

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
)

func TestError(t *testing.T) {
	err := error(&Error{Helper: "mount.cifs", Err: exec.ErrNotFound})
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "mount.cifs")
	err = &Error{Helper: "/sbin/mount.cifs", Output: makePrintable(" one\n\ttwo\x1b[31m\xff\n"), Err: exec.ErrNotFound}
	require.ErrorContains(t, err, ": one two?[31m?")
	require.Less(t, len(makePrintable(strings.Repeat("ä", 1<<16))), 2100)
}

func TestOptionsFor(t *testing.T) {
	o, err := options.Parse([]string{"ro", "vers=3.0", "noatime", "_netdev", `context="a:s0:c1,c2"`}, options.Allow{Context: true, Dev: true})
	require.NoError(t, err)
	require.Equal(t, []string{"ro", "nosuid", "vers=3.0", `context="a:s0:c1,c2"`}, optionsFor(o))
}

func TestSecretFile(t *testing.T) {
	secrets := func(texts ...string) (all []options.Secret) {
		for _, text := range texts {
			all = append(all, options.NewSecret(text))
		}
		return all
	}
	for _, test := range []struct {
		fsType          string
		secrets         []options.Secret
		option, content string
	}{
		{"cifs", secrets("username=bob", "password=a=b c", "dom=x"), "credentials=", "username=bob\npassword=a=b c\ndomain=x\n"},
		{"ceph", secrets("secret=AQ=="), "secretfile=", "AQ=="},
		{"nfs", nil, "", ""},
	} {
		file, err := newSecretFile(test.fsType, test.secrets)
		require.NoError(t, err)
		require.Equal(t, secretFile{test.option, test.content}, file)
	}
	for fsType, secrets := range map[string][]options.Secret{
		"cifs": secrets("hunter2=hunter2"), "ceph": secrets("secret=hunter2", "secret=hunter2"),
		"nfs": secrets("password=hunter2"), "none": secrets("secret=hunter2"),
	} {
		_, err := newSecretFile(fsType, secrets)
		var input *failure.InputError
		require.ErrorAs(t, err, &input, fsType)
		require.NotContains(t, fmt.Sprintf("%v %+v", err, input), "hunter2")
	}
}

func TestIsMountOf(t *testing.T) {
	for _, test := range []struct {
		haveType, haveSource, wantType, wantSource string
		want                                       bool
	}{
		{"nfs4", "a:/b", "nfs", "a:/b", true},
		{"nfs", "a:/b", "nfs4", "a:/b/", true},
		{"nfs4", "a:/c", "nfs", "a:/b", false},
		{"cifs", "//a/b", "smb3", "//a/b", true},
		{"fuse.glusterfs", "a:/b", "glusterfs", "a:/b", true},
		{"ceph", "10.0.0.1:6789:/b", "ceph", "monitor:/b", true},
		{"ceph", "10.0.0.1:6789:/c", "ceph", "monitor:/b", false},
		{"tmpfs", "a:/b", "nfs", "a:/b", false},
		{"tmpfs", "a/", "tmpfs", "a", false},
		{"fuse.tmpfs", "a", "tmpfs", "a", false},
	} {
		s := spec.Spec{Source: test.wantSource, FSType: test.wantType}
		require.Equal(t, test.want, new(Catalog).IsMountOf(Mount{FSType: test.haveType, Source: test.haveSource}, &s), "%+v", test)
	}
}
