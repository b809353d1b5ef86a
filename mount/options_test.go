package mount_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func TestParseOptions(t *testing.T) {
	o, err := mount.ParseOptions([]string{"rw", "noexec", "size=1m"}, mount.Allow{SUID: true})
	require.NoError(t, err)
	require.Equal(t, mount.Options{Set: mount.NoDev | mount.NoExec, Clear: mount.ReadOnly, Data: []string{"size=1m"}}, o)
	_, err = mount.ParseOptions([]string{"ro", "bind"}, mount.Allow{})
	require.Equal(t, &mount.InputError{Field: "Options[1]", Value: "bind", Reason: "Request.FSType is empty for a bind mount"}, err)
}

// TestFlags: the public flags are the flags of the options.
func TestFlags(t *testing.T) {
	const all = mount.ReadOnly | mount.NoSUID | mount.NoDev | mount.NoExec |
		mount.NoSymFollow | mount.NoDirAtime | mount.NoAtime | mount.StrictAtime
	require.Equal(t, "ro,nosuid,nodev,noexec,nosymfollow,nodiratime,noatime,strictatime", all.String())
	for _, flag := range []mount.Flags{
		mount.ReadOnly, mount.NoSUID, mount.NoDev, mount.NoExec,
		mount.NoSymFollow, mount.NoDirAtime, mount.NoAtime, mount.StrictAtime,
	} {
		name := strings.TrimPrefix(flag.String(), "rw,")
		o, err := mount.ParseOptions([]string{name}, mount.Allow{SUID: true, Dev: true})
		require.NoError(t, err)
		require.Equal(t, flag, o.Set, name)
	}
}

// TestSecrets: no way to print a request shows a secret.
func TestSecrets(t *testing.T) {
	const password = "hunter2"
	secret := mount.NewSecret("password=" + password)
	require.Equal(t, "password="+password, secret.Reveal())
	require.Empty(t, mount.Secret{}.Reveal())

	req := mount.Request{Source: "//server/share", Target: "/t", FSType: "cifs", Secrets: []mount.Secret{secret}}
	hidden := struct{ req mount.Request }{req}
	text, err := json.Marshal(req)
	require.NoError(t, err)
	shown := []string{string(text)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{secret, &secret, req, &req, hidden, []mount.Secret{secret}, map[string]mount.Secret{"a": secret}} {
			shown = append(shown, fmt.Sprintf(verb, value))
		}
	}
	for _, text := range shown {
		require.NotContains(t, text, password)
		require.NotContains(t, text, fmt.Sprintf("%x", password))
	}

	for _, bad := range []string{"", "a,b=" + password, "ro", "bind", "x-" + password, "suid", "nofail", "user=" + password, "username=" + password} {
		req := req
		req.Options = []string{"username=bob"}
		req.Secrets = []mount.Secret{secret, mount.NewSecret(bad)}
		_, err := req.Parse(mount.Allow{})
		var input *mount.InputError
		require.ErrorAs(t, err, &input, "%q", bad)
		require.Equal(t, "Secrets[1]", input.Field)
		require.NotContains(t, err.Error(), password)
	}
}

func TestError(t *testing.T) {
	err := error(&mount.Error{Op: "mount", Source: "/a", Target: "/b c", Err: fmt.Errorf("source: %w", syscall.ENOENT)})
	require.EqualError(t, err, `mount /a on "/b c": source: no such file or directory`)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, err, syscall.ENOENT)
	require.NotErrorIs(t, err, fs.ErrExist)
	require.EqualError(t, &mount.Error{Op: "unmount", Target: "/b", Err: errors.New("x")}, "unmount /b: x")
	require.EqualError(t, &mount.Error{Op: "list", Err: errors.New("x")}, "list: x")
}
