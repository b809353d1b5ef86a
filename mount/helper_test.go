package mount

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelperError(t *testing.T) {
	err := error(&HelperError{Helper: "mount.cifs", Err: exec.ErrNotFound})
	require.ErrorIs(t, err, exec.ErrNotFound)
	require.ErrorContains(t, err, "mount.cifs")
	err = &HelperError{Helper: "/sbin/mount.cifs", Output: printable(" one\n\ttwo\x1b[31m\xff\n"), Err: exec.ErrNotFound}
	require.ErrorContains(t, err, ": one two?[31m?")
	require.Less(t, len(printable(strings.Repeat("ä", 1<<16))), 2100)
}

func TestHelperOptions(t *testing.T) {
	o, err := ParseOptions([]string{"ro", "vers=3.0", "noatime", "_netdev"}, Allow{})
	require.NoError(t, err)
	require.Equal(t, []string{"ro", "nosuid", "nodev", "vers=3.0"}, helperOptions(o))
}

func TestHandOver(t *testing.T) {
	secrets := func(texts ...string) (all []Secret) {
		for _, text := range texts {
			all = append(all, NewSecret(text))
		}
		return all
	}
	for _, test := range []struct {
		fsType          string
		secrets         []Secret
		option, content string
	}{
		{"cifs", secrets("username=bob", "password=a=b c", "dom=x"), "credentials=", "username=bob\npassword=a=b c\ndomain=x\n"},
		{"ceph", secrets("secret=AQ=="), "secretfile=", "AQ=="},
		{"nfs", nil, "", ""},
	} {
		option, content, err := handOver(test.fsType, test.secrets)
		require.NoError(t, err)
		require.Equal(t, test.option, option)
		require.Equal(t, test.content, content)
	}
	for fsType, secrets := range map[string][]Secret{
		"cifs": secrets("hunter2=hunter2"), "ceph": secrets("secret=hunter2", "secret=hunter2"),
		"nfs": secrets("password=hunter2"), "none": secrets("secret=hunter2"),
	} {
		_, _, err := handOver(fsType, secrets)
		var input *InputError
		require.ErrorAs(t, err, &input, fsType)
		require.NotContains(t, fmt.Sprintf("%v %+v", err, input), "hunter2")
	}
}

func TestIsMountOf(t *testing.T) {
	for _, test := range []struct {
		have, from, want, asked string
		is                      bool
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
		req := Request{Source: test.asked, FSType: test.want}
		require.Equal(t, test.is, isMountOf(Info{FSType: test.have, Source: test.from}, req), "%+v", test)
	}
}

func TestNFSHost(t *testing.T) {
	for source, want := range map[string]string{
		"server:/export": "server", "10.0.0.1:/": "10.0.0.1", "a.b.c:/d:/e": "a.b.c",
		"[2001:db8::1]:/export": "2001:db8::1", "[fe80::1%eth0]:/x": "fe80::1%eth0",
	} {
		host, err := nfsHost(source)
		require.NoError(t, err, source)
		require.Equal(t, want, host)
	}
	for _, source := range []string{
		"", "server", ":/export", "server:export", "[]:/x", "[a:/x", "a b:/x", "a,b:/x", "-a:/x", "a/b:/x",
		"[not:an:address]:/x", "a:/b/../c", "a:b:/c",
	} {
		_, err := nfsHost(source)
		var input *InputError
		require.ErrorAs(t, err, &input, source)
		require.Equal(t, "Source", input.Field)
	}
}

func TestNFSOptions(t *testing.T) {
	given := Options{Data: []string{"hard", "timeo=10"}}
	require.Equal(t, nfsVersions, versionsToTry(given))
	for _, option := range []string{"vers=4.1", "nfsvers=4", "v4.2", "vers=3"} {
		require.Equal(t, []string{""}, versionsToTry(Options{Data: []string{"hard", option}}), option)
	}
	server, client := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	require.Equal(t, []string{"hard", "timeo=10", "vers=4.2", "addr=10.0.0.1", "clientaddr=10.0.0.2"},
		given.withNFS("vers=4.2", server, client).Data)
	require.Equal(t, []string{"hard", "timeo=10", "addr=10.0.0.1"}, given.withNFS("", server, netip.Addr{}).Data)
	require.Len(t, given.Data, 2)
}
