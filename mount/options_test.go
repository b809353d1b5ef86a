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

const safe = mount.NoSUID | mount.NoDev

func TestParseOptions(t *testing.T) {
	anything := mount.Allow{SUID: true, Dev: true, Context: true}
	for _, test := range []struct {
		options string
		allow   mount.Allow
		want    mount.Options
	}{
		{"", mount.Allow{}, mount.Options{Set: safe}},
		{"", anything, mount.Options{}},
		{"defaults,_netdev,nofail,noauto,nouser", mount.Allow{}, mount.Options{Set: safe}},
		{"ro", mount.Allow{}, mount.Options{Set: safe | mount.ReadOnly}},
		{"ro,ro", mount.Allow{}, mount.Options{Set: safe | mount.ReadOnly}},
		{"rw,exec,symfollow,diratime", mount.Allow{}, mount.Options{
			Set:   safe,
			Clear: mount.ReadOnly | mount.NoExec | mount.NoSymFollow | mount.NoDirAtime,
		}},
		{"noexec,nosymfollow,nodiratime", mount.Allow{}, mount.Options{
			Set: safe | mount.NoExec | mount.NoSymFollow | mount.NoDirAtime,
		}},
		{"noatime", mount.Allow{}, mount.Options{Set: safe | mount.NoAtime, Clear: mount.StrictAtime}},
		{"strictatime", mount.Allow{}, mount.Options{Set: safe | mount.StrictAtime, Clear: mount.NoAtime}},
		{"relatime", mount.Allow{}, mount.Options{Set: safe, Clear: mount.NoAtime | mount.StrictAtime}},
		{"atime", mount.Allow{}, mount.Options{Set: safe, Clear: mount.NoAtime}},
		{"nostrictatime,norelatime", mount.Allow{}, mount.Options{Set: safe, Clear: mount.StrictAtime}},
		{"nosuid,nodev", anything, mount.Options{Set: safe}},
		{"suid,dev", anything, mount.Options{Clear: safe}},
		{"context=a:b:c", anything, mount.Options{Data: []string{"context=a:b:c"}}},
		{"size=1m,sync,acl,lowerdir+=/a,lowerdir+=/b", mount.Allow{}, mount.Options{
			Set: safe, Data: []string{"size=1m", "sync", "acl", "lowerdir+=/a", "lowerdir+=/b"},
		}},
	} {
		var options []string
		if test.options != "" {
			options = strings.Split(test.options, ",")
		}
		got, err := mount.ParseOptions(options, test.allow)
		require.NoError(t, err, test.options)
		require.Equal(t, test.want, got, test.options)
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for _, option := range []string{
		"", "=", "=x", "a,b", "a\x00", "a\nb",
		"bind", "rbind", "move", "remount", "loop", "loop=/dev/loop0", "offset=1", "sizelimit=1",
		"helper=x", "uhelper=x", "x-systemd.automount", "X-mount.mkdir", "x-", "X-mount.mkdir=0700",
		"user", "users", "owner", "group", "user=me", "shared", "rshared", "slave", "private", "unbindable",
		"addr=1.2.3.4", "clientaddr=1.2.3.4", "mountaddr=1.2.3.4", "source=/dev/sda",
		"suid", "dev", "context=a", "fscontext=a", "defcontext=a", "rootcontext=a",
		"ro=1", "nosuid=", "suid=1", "noexec=no", "nofail=x", "defaults=",
		"errors=panic", "comment=x", "smackfsroot=x", "mounthost=x", "subtype=x",
	} {
		_, err := mount.ParseOptions([]string{"noatime", option}, mount.Allow{})
		var input *mount.InputError
		require.ErrorAs(t, err, &input, "%q", option)
		require.Equal(t, "Options[1]", input.Field)
		require.Equal(t, option, input.Value)
	}
}

func TestParseOptionsContradictions(t *testing.T) {
	allow := mount.Allow{SUID: true, Dev: true}
	for _, pair := range [][2]string{
		{"ro", "rw"}, {"suid", "nosuid"}, {"dev", "nodev"}, {"exec", "noexec"},
		{"symfollow", "nosymfollow"}, {"diratime", "nodiratime"},
		{"atime", "noatime"}, {"noatime", "relatime"}, {"noatime", "strictatime"},
		{"relatime", "strictatime"}, {"strictatime", "nostrictatime"},
		{"sync", "async"}, {"lazytime", "nolazytime"}, {"acl", "noacl"}, {"size=1", "size=2"},
		{"vers=4.1", "vers=4.2"}, {"lock", "nolock"},
	} {
		for _, options := range [][]string{{pair[0], pair[1]}, {pair[1], "x=y", pair[0]}} {
			_, err := mount.ParseOptions(options, allow)
			require.ErrorContains(t, err, options[0], "names both: %v", options)
			require.ErrorContains(t, err, options[len(options)-1], "%v", options)
			var input *mount.InputError
			require.ErrorAs(t, err, &input)
		}
	}
}

func TestRequestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, req := range []mount.Request{
		{Target: long},
		{Target: "/t", Source: long},
		{Target: "/t", Source: "/s", Options: []string{long}},
		{Target: "/t", Source: "/s", Options: []string{"a=1", "a=" + long}},
		{Target: "/t", FSType: "/" + long},
	} {
		_, err := req.Parse(mount.Allow{})
		require.Error(t, err)
		require.Less(t, len(err.Error()), 1000)
	}
}

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

func FuzzRequest(f *testing.F) {
	f.Add("/s", "/t", "", "ro")
	f.Add("tmpfs", "/t", "tmpfs", "size=1m\x00rw")
	f.Add("/s/../x", "/t//.", "", "noatime\x00x-y=z")
	f.Add("", "/", "a b", "=\x00,")
	f.Fuzz(func(t *testing.T, source, target, fsType, options string) {
		req := mount.Request{Source: source, Target: target, FSType: fsType, Options: strings.Split(options, "\x00")}
		o, err := req.Parse(mount.Allow{})
		if err != nil {
			var input *mount.InputError
			require.ErrorAs(t, err, &input)
			require.Less(t, len(err.Error()), 2000)
			return
		}
		require.Equal(t, safe, o.Set&safe)
		require.Zero(t, o.Set&o.Clear)
		require.NotContains(t, target+"/", "/../")
		require.True(t, fsType != "" || len(o.Data) == 0)
		for _, option := range o.Data {
			require.NotContains(t, option, ",")
		}
	})
}
