package nfs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pvWith(options ...string) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "nas", Path: "/x"}},
			MountOptions:           options,
		},
	}, false)
}

// TestOptions: mount options are divided between the kernel and the program mount.nfs.
func TestOptions(t *testing.T) {
	for _, test := range []struct{ options, kernel, program string }{
		{"", "", ""},
		{"ro noexec", "ro noexec", "ro noexec"},
		{"hard timeo=600 retrans=2", "hard timeo=600 retrans=2", "hard timeo=600 retrans=2"},
		{"vers=4.1 proto=tcp", "proto=tcp vers=4.1", "proto=tcp vers=4.1"},
		{"nfsvers=4.0", "vers=4.0", "vers=4.0"},
		{"v4.2", "vers=4.2", "vers=4.2"},
		{"vers=4", "", "vers=4"},
		{"v4 vers=4 nfsvers=4", "", "vers=4"},
		{"vers=4 minorversion=1", "vers=4.1", "vers=4.1"},
		{"minorversion=0", "vers=4.0", "vers=4.0"},
		{"vers=4.2 minorversion=2", "vers=4.2", "vers=4.2"},
		{"fg retry=2 intr soft", "soft", "fg retry=2 intr soft"},
		{"tcp proto=tcp", "tcp proto=tcp", "tcp proto=tcp"},
		{"sec=krb5:krb5i rdirplus", "sec=krb5:krb5i rdirplus", "sec=krb5:krb5i rdirplus"},
		{"nconnect=16 rsize=1048576 actimeo=0 lookupcache=pos noresvport nocto", "nconnect=16 rsize=1048576 actimeo=0 lookupcache=pos noresvport nocto",
			"nconnect=16 rsize=1048576 actimeo=0 lookupcache=pos noresvport nocto"},
		{"bg x-systemd.automount comment=x hard", "x-systemd.automount comment=x hard", "x-systemd.automount comment=x hard"},
		{`context="a:b:c:s0:c1,c2" hard`, `context="a:b:c:s0:c1,c2" hard`, `context="a:b:c:s0:c1,c2" hard`},
		{"_netdev defaults hard hard", "_netdev defaults hard", "_netdev defaults hard"},
	} {
		w, err := parseOptions(pvWith(strings.Fields(test.options)...))
		require.NoError(t, err, test.options)
		require.Equal(t, test.kernel, strings.Join(w.forKernel(), " "), test.options)
		require.Equal(t, test.program, strings.Join(w.forProgram(), " "), test.options)
	}
}

func TestOptionsRefused(t *testing.T) {
	for options, about := range map[string]string{
		"bind": "[0]", "remount": "[0]", "X-mount.mkdir": "[0]", "addr=10.0.0.1": "[0]", "clientaddr=10.0.0.1": "[0]",
		"mountaddr=10.0.0.1": "[0]", "mounthost=evil": "[0]", "source=x:/y": "[0]", "context": "[0]", "context=\"a,b=c\"": "[0]", "helper=x": "[0]",
		"sloppy": "[0]", "size=1": "[0]", "nosuchoption": "[0]", "vers": "[0]", "vers=2": "[0]", "vers=5": "[0]",
		"vers=4.3": "[0]", "vers=4.10": "[0]", "v2": "[0]", "timeo=0": "[0]", "timeo=-1": "[0]", "timeo=x": "[0]", "timeo=": "[0]",
		"timeo": "[0]", "timeo=0x10": "[0]", "timeo=010": "[0]", "timeo=+1": "[0]", "timeo=99999999999999999999": "[0]",
		"nconnect=17": "[0]", "nconnect=0": "[0]", "port=65536": "[0]", "hard=1": "[0]", "sec=": "[0]", "sec=krb4": "[0]",
		"sec=sys:": "[0]", "lookupcache=some": "[0]", "proto=sctp": "[0]", "hard soft": "[1]", "soft softerr": "[1]",
		"hard softerr": "[1]", "vers=3 nfsvers=4": "[1]", "vers=4.1 v4.2": "[1]", "tcp proto=udp": "[1]", "ac noac": "[1]",
		"rsize=1 rsize=2": "[1]", "vers=3 minorversion=1": "[1]", "vers=4.1 minorversion=2": "[1]", "minorversion=1 vers=4.2": "[1]",
		"ro rw": "[1]", "noexec exec": "[1]", "hard timeo=1 resvport noresvport": "[3]", "lock nolock": "[1]", "rdirplus=none rdirplus": "[1]",
	} {
		_, err := parseOptions(pvWith(strings.Fields(options)...))
		requireField(t, err, "spec.persistentVolume.spec.mountOptions"+about, options)
	}
	for _, option := range []string{"timeo=1\x00", "ha\nrd", "ha rd", "HARD"} {
		_, err := parseOptions(pvWith(option))
		requireField(t, err, "spec.persistentVolume.spec.mountOptions[0]", option)
	}
	for _, written := range [][]string{{"hard,soft"}, {"nfsvers=4.1,hard", "", "timeo=1,soft"}, {"ro,bind"}} {
		_, err := parseOptions(pvWith(written...))
		_, wrong, _ := strings.Cut(written[len(written)-1], ",")
		requireField(t, err, fmt.Sprintf("spec.persistentVolume.spec.mountOptions[%d]", len(written)-1), wrong)
	}
	w, err := parseOptions(pvWith("nfsvers=4.1,hard", "ro, noexec"))
	require.NoError(t, err)
	require.Equal(t, "ro noexec hard vers=4.1", strings.Join(w.forKernel(), " "))
	spec := pvWith("hard")
	spec.PersistentVolume.Annotations = map[string]string{v1.MountOptionAnnotation: "timeo=1,soft"}
	_, err = parseOptions(spec)
	requireField(t, err, "spec.persistentVolume.metadata.annotations["+v1.MountOptionAnnotation+"]", "soft")
	_, err = parseOptions(pvWith(strings.Repeat("hard,", mostOptions+1)))
	require.Error(t, err)
}

// TestWays: transport and options decide who mounts: the kernel, the program, or one after the
// other.
func TestWays(t *testing.T) {
	s := source{"nas", "/x"}
	for _, test := range []struct {
		transport Transport
		options   string
		want      string // a way each: k for the kernel, p for the program, and its options
	}{
		{Automatic, "hard", "k hard; p hard vers=3"},
		{Automatic, "vers=4", "k"},
		{Automatic, "vers=4.1 rw", "k rw vers=4.1"},
		{Automatic, "vers=3", "p vers=3"},
		{Automatic, "vers=3 nolock mountport=20048", "k nolock mountport=20048 vers=3"},
		{Automatic, "sec=krb5p", "p sec=krb5p"},
		{Direct, "hard", "k hard"},
		{Direct, "vers=3 nolock mountport=20048", "k nolock mountport=20048 vers=3"},
		{Helper, "vers=4.2 fg", "p fg vers=4.2"},
	} {
		w, err := parseOptions(pvWith(strings.Fields(test.options)...))
		require.NoError(t, err)
		require.NoError(t, test.transport.checkWish(pvWith(strings.Fields(test.options)...), w))
		var ways []string
		for _, req := range test.transport.requests(s, w, false) {
			require.Equal(t, "nas:/x", req.Source)
			require.Equal(t, "nfs", req.FSType)
			who := map[mount.HelperUse]string{mount.HelperNever: "k", mount.HelperAlways: "p"}[req.Helper]
			ways = append(ways, strings.Join(append([]string{who}, req.Options...), " "))
		}
		require.Equal(t, test.want, strings.Join(ways, "; "), test.options)
	}
	w, err := parseOptions(pvWith("hard", "rw"))
	require.NoError(t, err)
	for _, way := range Automatic.requests(s, w, true) {
		require.Contains(t, way.Options, "ro")
		require.NotContains(t, way.Options, "rw")
	}
}

func TestDirectRefuses(t *testing.T) {
	for _, options := range [][]string{{"hard", "vers=3"}, {"hard", "v3", "nolock"}, {"hard", "sec=krb5"}} {
		_, err := New(Config{Transport: Direct}).NewMounter(pvWith(options...), &v1.Pod{})
		requireField(t, err, "spec.persistentVolume.spec.mountOptions[1]", options[1])
	}
}

// TestTransports: each transport has a name, and an unknown one is refused.
func TestTransports(t *testing.T) {
	require.Equal(t, "direct", Direct.String())
	require.Equal(t, "unknown transport", Transport(3).String())
	require.NoError(t, Helper.check())
	require.Error(t, Transport(-1).check())
}

// TestNameOf checks that the names of exports differ if and only if they require different
// mounts.
func TestNameOf(t *testing.T) {
	req := mount.Request{Source: "nas:/x", Options: []string{"hard", "ro", "timeo=1"}}
	name := nameOf("", req)
	same := req
	same.Options = []string{"timeo=1", "noexec", "hard", "hard"}
	require.Equal(t, name, nameOf("", same), "in what order, and what each pod has for itself")
	require.NotEqual(t, name, nameOf("4", req))
	for _, other := range []mount.Request{
		{Source: "nas:/y", Options: req.Options}, {Source: "nas:/x"}, {Source: "nas:/x", Options: []string{"hard", "timeo=2"}},
	} {
		require.NotEqual(t, name, nameOf("", other))
	}
}
