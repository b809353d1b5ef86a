package options

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/optionlist"
	"github.com/volumekit/volumekit/mount/internal/failure"
)

const safe = NoSUID | NoDev

func TestParse(t *testing.T) {
	allowAll := Allow{SUID: true, Dev: true, Context: true}
	for _, test := range []struct {
		options string
		allow   Allow
		want    Options
	}{
		{"", Allow{}, Options{Set: safe}},
		{"", allowAll, Options{}},
		{"defaults,_netdev,nofail,noauto,nouser", Allow{}, Options{Set: safe}},
		{`x-systemd.requires=a,x-systemd.requires=b,x-gvfs-hide,comment=a b,x-b="c,d",x-mount.mkdir=0700,nousers`, Allow{}, Options{Set: safe}},
		{"ro", Allow{}, Options{Set: safe | ReadOnly}},
		{"ro,ro", Allow{}, Options{Set: safe | ReadOnly}},
		{"rw,exec,symfollow,diratime", Allow{}, Options{
			Set:   safe,
			Clear: ReadOnly | NoExec | NoSymFollow | NoDirAtime,
		}},
		{"noexec,nosymfollow,nodiratime", Allow{}, Options{
			Set: safe | NoExec | NoSymFollow | NoDirAtime,
		}},
		{"noatime", Allow{}, Options{Set: safe | NoAtime, Clear: StrictAtime}},
		{"strictatime", Allow{}, Options{Set: safe | StrictAtime, Clear: NoAtime}},
		{"relatime", Allow{}, Options{Set: safe, Clear: NoAtime | StrictAtime}},
		{"atime", Allow{}, Options{Set: safe, Clear: NoAtime}},
		{"nostrictatime,norelatime", Allow{}, Options{Set: safe, Clear: StrictAtime}},
		{"nosuid,nodev", allowAll, Options{Set: safe}},
		{"suid,dev", allowAll, Options{Clear: safe}},
		{"context=a:b:c", allowAll, Options{Data: []string{"context=a:b:c"}}},
		{"size=1m,sync,acl,lowerdir+=/a,lowerdir+=/b", Allow{}, Options{
			Set: safe, Data: []string{"size=1m", "sync", "acl", "lowerdir+=/a", "lowerdir+=/b"},
		}},
	} {
		var options []string
		if test.options != "" {
			options = optionlist.Split(test.options)
		}
		got, err := Parse(options, test.allow)
		require.NoError(t, err, test.options)
		require.Equal(t, test.want, got, test.options)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, option := range []string{
		"", "=", "=x", "a,b", "a\x00", "a\nb",
		"bind", "rbind", "move", "remount", "loop", "loop=/dev/loop0", "offset=1", "sizelimit=1",
		"helper=x", "uhelper=x", "X-mkdir", "X-mount.mkdir=0700", "x-systemd.automount\n", "x-a=b,c", `x-a="b,c`, `x-a="b","c"`, `x-a="`, `size="1m`, `a="b"c"`,
		"user", "users", "owner", "group", "user=me", "shared", "rshared", "slave", "private", "unbindable",
		"addr=1.2.3.4", "clientaddr=1.2.3.4", "mountaddr=1.2.3.4", "source=/dev/sda",
		"suid", "dev", "context=a", "fscontext=a", "defcontext=a", "rootcontext=a",
		"ro=1", "nosuid=", "suid=1", "noexec=no", "nofail=x", "defaults=",
		"errors=panic", "smackfsroot=x", "mounthost=x", "subtype=x",
	} {
		_, err := Parse([]string{"noatime", option}, Allow{})
		var input *failure.InputError
		require.ErrorAs(t, err, &input, "%q", option)
		require.Equal(t, "Options[1]", input.Field)
		require.Equal(t, option, input.Value)
	}
}

// TestRefusalsNameAlternative: a refusal names the grant or the field to use instead.
func TestRefusalsNameAlternative(t *testing.T) {
	for option, want := range map[string]string{
		"suid": "mount.Config.Allow.SUID", "dev": "mount.Config.Allow.Dev", "context=a": "mount.Config.Allow.Context",
		"fscontext=a": "mount.Config.Allow.Context", "user": `"noexec"`, "users": `"noexec"`, "loop=/dev/loop0": "util/loop",
		"bind": "Request.FSType", "rbind": "Request.Submounts", "remount": "Request.Remount", "rshared": "Request.Propagation",
	} {
		_, err := Parse([]string{option}, Allow{})
		require.ErrorContains(t, err, want, option)
	}
}

func TestContradictions(t *testing.T) {
	allow := Allow{SUID: true, Dev: true}
	for _, pair := range [][2]string{
		{"ro", "rw"}, {"suid", "nosuid"}, {"dev", "nodev"}, {"exec", "noexec"},
		{"symfollow", "nosymfollow"}, {"diratime", "nodiratime"},
		{"atime", "noatime"}, {"noatime", "relatime"}, {"noatime", "strictatime"},
		{"relatime", "strictatime"}, {"strictatime", "nostrictatime"},
		{"sync", "async"}, {"lazytime", "nolazytime"}, {"acl", "noacl"}, {"size=1", "size=2"},
		{"vers=4.1", "vers=4.2"}, {"lock", "nolock"},
	} {
		for _, options := range [][]string{{pair[0], pair[1]}, {pair[1], "x=y", pair[0]}} {
			_, err := Parse(options, allow)
			require.ErrorContains(t, err, options[0], "the error names both options: %v", options)
			require.ErrorContains(t, err, options[len(options)-1], "%v", options)
			var input *failure.InputError
			require.ErrorAs(t, err, &input)
		}
	}
}

// TestRepeatedOptions: an annotation of 1 MB holds some hundred thousand options. The work
// grows in proportion to them.
func TestRepeatedOptions(t *testing.T) {
	for _, option := range []string{"ro", "size=1"} {
		o, err := Parse(slices.Repeat([]string{option}, 400_000), Allow{})
		require.NoError(t, err)
		require.Equal(t, option == "ro", o.Set&ReadOnly != 0)
	}
}
