package mountutils

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

func TestRequest(t *testing.T) {
	const hide, include = mount.HideSubmounts, mount.IncludeSubmounts
	for name, test := range map[string]struct {
		args mountArgs
		want mount.Request
	}{
		"device": {
			mountArgs{source: "/dev/a", target: "/t", fsType: "ext4", options: []string{"noatime", "defaults"}},
			mount.Request{Source: "/dev/a", Target: "/t", FSType: "ext4", Options: []string{"noatime", "defaults"}},
		},
		"several in one": {
			mountArgs{source: "a:/b", target: "/t", fsType: "nfs", options: []string{"ro,vers=4.1", "", "hard"}},
			mount.Request{Source: "a:/b", Target: "/t", FSType: "nfs", Options: []string{"ro", "vers=4.1", "hard"}},
		},
		"bind": {
			mountArgs{source: "/s", target: "/t", options: []string{"bind"}},
			mount.Request{Source: "/s", Target: "/t", Submounts: hide, DeviceFile: true},
		},
		"bind with a type, flags and options of the volume": {
			mountArgs{source: "/s", target: "/t", fsType: "ext4", options: []string{"bind", "ro", "nfsvers=4.1", "discard", "_netdev"}},
			mount.Request{Source: "/s", Target: "/t", Options: []string{"ro", "_netdev"}, Submounts: hide, DeviceFile: true},
		},
		"rbind": {
			mountArgs{source: "/s", target: "/t", fsType: "none", options: []string{"rbind,rslave"}},
			mount.Request{Source: "/s", Target: "/t", Submounts: include, DeviceFile: true, Propagation: mount.PropagationSlave},
		},
		"bind, shared": {
			mountArgs{source: "/s", target: "/t", options: []string{"bind", "rshared"}},
			mount.Request{Source: "/s", Target: "/t", Submounts: hide, DeviceFile: true, Propagation: mount.PropagationShared},
		},
		"remount of a bind": {
			mountArgs{source: "/s", target: "/t", fsType: "x", options: []string{"bind", "remount", "ro", "size=1"}},
			mount.Request{Target: "/t", Options: []string{"ro"}, Remount: true},
		},
		"remount": {
			mountArgs{source: "/s", target: "/t", options: []string{"remount", "rw"}},
			mount.Request{Target: "/t", Options: []string{"rw"}, Remount: true},
		},
		"for the readers of fstab": {
			mountArgs{source: "x", target: "/t", fsType: "tmpfs", options: []string{"x-systemd.automount", "comment=a b", "noexec"}},
			mount.Request{Source: "x", Target: "/t", FSType: "tmpfs", Options: []string{"x-systemd.automount", "comment=a b", "noexec"}},
		},
		"flags of mount(8)": {
			mountArgs{source: "/s", target: "/t", flags: []string{"--no-mtab", "-B", "--read-only", "--make-rshared"}},
			mount.Request{Source: "/s", Target: "/t", Options: []string{"ro"}, Submounts: hide, DeviceFile: true, Propagation: mount.PropagationShared},
		},
		"flags among sensitive options": {
			mountArgs{source: "/s", target: "/t", options: []string{"ro"}, sensitive: []string{"bind,ro", "noexec"}},
			mount.Request{Source: "/s", Target: "/t", Options: []string{"ro", "noexec"}, Submounts: hide, DeviceFile: true},
		},
		"label": {
			mountArgs{source: "x", target: "/t", fsType: "tmpfs", options: []string{`ro,context="a:b:c:s0:c1,c2",noexec`}},
			mount.Request{Source: "x", Target: "/t", FSType: "tmpfs", Options: []string{"ro", `context="a:b:c:s0:c1,c2"`, "noexec"}},
		},
		"label of a bind": {
			mountArgs{source: "/s", target: "/t", options: []string{"bind", `context="a:b:c:s0:c1,c2"`, "ro"}},
			mount.Request{Source: "/s", Target: "/t", Options: []string{"ro"}, Submounts: hide, DeviceFile: true},
		},
		"quotes": {
			mountArgs{source: "x", target: "/t", fsType: "tmpfs", options: []string{`a="b,c",d`}},
			mount.Request{Source: "x", Target: "/t", FSType: "tmpfs", Options: []string{`a="b,c"`, "d"}},
		},
	} {
		got, err := test.args.request()
		require.NoError(t, err, name)
		require.Equal(t, test.want, got, name)
	}
}

func TestRequestSecrets(t *testing.T) {
	req, err := mountArgs{
		source: "//server/share", target: "/t", fsType: "cifs",
		options: []string{"vers=3.0"}, sensitive: []string{"username=bob,password=hunter2"},
	}.request()
	require.NoError(t, err)
	require.Equal(t, []string{"vers=3.0"}, req.Options)
	require.Len(t, req.Secrets, 2)
	require.Equal(t, "username=bob", req.Secrets[0].Reveal())
	require.Equal(t, "password=hunter2", req.Secrets[1].Reveal())
	text, err := json.Marshal(req)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%s %+v %#v", text, req, req), "hunter2")

	req, err = mountArgs{source: "x", target: "/t", fsType: "tmpfs", sensitive: []string{"comment=hunter2,x-token=hunter2,_netdev,ro"}}.request()
	require.NoError(t, err)
	require.Equal(t, []string{"ro"}, req.Options)
	require.Empty(t, req.Secrets)
}

func TestRequestRefuses(t *testing.T) {
	for field, o := range map[string]mountArgs{
		"FSType":        {source: "/dev/a", target: "/t"},
		"MountFlags[1]": {source: "/s", target: "/t", flags: []string{"-n", "-o" + strings.Repeat("x", 1<<20)}},
		"Options[0]":    {source: "/s", target: "/t", options: []string{"bind", "move"}},
		"Options[1]":    {source: "/s", target: "/t", fsType: "tmpfs", options: []string{"ro", "rw"}},
	} {
		req, err := o.request()
		if err == nil {
			_, err = req.Parse(allowAll)
		}
		var input *mount.InputError
		require.ErrorAs(t, err, &input, field)
		require.Equal(t, field, input.Field)
		require.Less(t, len(err.Error()), 1000)
	}
	for _, fsType := range []string{"", "auto"} {
		_, err := mountArgs{source: "/dev/a", target: "/t", fsType: fsType}.request()
		require.ErrorContains(t, err, "FSType")
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("/s", "ext4", `bind,"a,b`, "password=hunter2,ro", "-n")
	f.Fuzz(func(t *testing.T, source, fsType, options, sensitive, flag string) {
		req, err := mountArgs{
			source: source, target: "/t", fsType: fsType,
			options: []string{options}, sensitive: []string{sensitive}, flags: []string{flag},
		}.request()
		if err != nil {
			return
		}
		o, err := req.Parse(mount.Allow{})
		if err == nil && strings.Contains(","+options+",", ",ro,") && !strings.ContainsAny(options, `"`) && !o.ReadOnly() {
			t.Fatalf("%q is not read-only", options)
		}
	})
}
