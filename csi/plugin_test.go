package csi

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/internal/accessmode"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestAccessModes: the first mode of a volume counts.
func TestAccessModes(t *testing.T) {
	const (
		writer      = csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
		multiWriter = csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
		oneWriter   = csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		readers     = csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
		anyNode     = csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	)
	for _, test := range []struct {
		modes           []v1.PersistentVolumeAccessMode
		plain, extended csipb.VolumeCapability_AccessMode_Mode
	}{
		{nil, writer, multiWriter},
		{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, writer, multiWriter},
		{[]v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}, writer, oneWriter},
		{[]v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}, readers, readers},
		{[]v1.PersistentVolumeAccessMode{v1.ReadWriteMany}, anyNode, anyNode},
		{[]v1.PersistentVolumeAccessMode{v1.ReadOnlyMany, v1.ReadWriteMany}, readers, readers},
	} {
		spec := (&fakeNode{attachments: map[string]map[string]string{}}).pv("data")
		spec.PersistentVolume.Spec.AccessModes = test.modes
		s, err := sourceOf(spec)
		require.NoError(t, err)
		require.Equal(t, test.plain, accessmode.Of(s.mode, false).Mode, "%v", test.modes)
		require.Equal(t, test.extended, accessmode.Of(s.mode, true).Mode, "%v", test.modes)
	}
	for _, mode := range []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany} {
		for _, single := range []bool{false, true} {
			found, ok := modeOf(accessmode.Of(mode, single).Mode)
			require.True(t, ok)
			require.Equal(t, mode, found)
		}
	}
	_, ok := modeOf(99)
	require.False(t, ok)
}

// TestInvalidSpecs: hostile values of a specification are refused before anything has changed.
func TestInvalidSpecs(t *testing.T) {
	n := newFakeNode(t)
	pv := func(change func(pv *v1.PersistentVolume)) *volume.Spec {
		spec := n.pv("data")
		change(spec.PersistentVolume)
		return spec
	}
	for name, spec := range map[string]*volume.Spec{
		"no driver":           pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "" }),
		"driver is a path":    pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "../../etc" }),
		"driver is a dot":     pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = ".." }),
		"driver too long":     pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = strings.Repeat("a", 64) }),
		"driver is a room":    pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "volumeDevices" }),
		"driver is hidden":    pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = ".targets" }),
		"driver with newline": pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "a\n" }),
		"no handle":           pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "" }),
		"handle with NUL":     pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "a\x00b" }),
		"handle no UTF-8":     pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "a\xff" }),
		"handle too long":     pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = strings.Repeat("h", 4097) }),
		"mode":                pv(func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{"All"} }),
		"fsType":              pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.FSType = "ext4\n" }),
		"option":              pv(func(pv *v1.PersistentVolume) { pv.Spec.MountOptions = []string{"a\nb"} }),
		"options too long": pv(func(pv *v1.PersistentVolume) {
			pv.Spec.MountOptions = []string{strings.Repeat("o", 4000), strings.Repeat("o", 4000)}
		}),
		"attribute":      pv(func(pv *v1.PersistentVolume) { pv.Spec.CSI.VolumeAttributes = map[string]string{"\xff": ""} }),
		"name is a path": pv(func(pv *v1.PersistentVolume) { pv.Name = "../x" }),
		"other":          volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
		"nil":            nil,
	} {
		_, err := n.plugin.NewMounter(spec, n.pod)
		var refused *field.Error
		require.ErrorAs(t, err, &refused, name)
		require.Less(t, len(err.Error()), 1024, name)
	}
	_, err := n.plugin.NewMounter(n.block("data"), n.pod)
	require.ErrorIs(t, err, volume.ErrNotSupported)
	for _, name := range []string{"staging", "publish"} {
		_, err := n.plugin.NewBlockVolumeMapper(n.block(name), n.pod)
		require.ErrorContains(t, err, "directory of the plugin")
	}
	m := n.newMounter(n.pv("data"))
	for _, dir := range []string{"", "/", "relative", n.host.Root(), "/etc", n.host.Root() + "/plugins/kubernetes.io/csi/x", n.host.Root() + "/a/../b"} {
		require.Error(t, m.SetUpAt(t.Context(), dir, volume.MounterArgs{}), dir)
	}
	require.Empty(t, n.files())
	require.Empty(t, n.driver.methods())
}

// TestPaths: each kind of volume has its own file, and is found by its path.
func TestPaths(t *testing.T) {
	n := newFakeNode(t)
	root := n.host.Root()
	for written, want := range map[string]target{
		root + "/pods/u/volumes/kubernetes.io~csi/v/mount": {
			path: root + "/pods/u/volumes/kubernetes.io~csi/v/mount", file: root + "/pods/u/volumes/kubernetes.io~csi/v/vol_data.json",
		},
		root + "/pods/u/volumes/kubernetes.io~csi/v": {
			path: root + "/pods/u/volumes/kubernetes.io~csi/v/mount", file: root + "/pods/u/volumes/kubernetes.io~csi/v/vol_data.json",
		},
		root + "/pods/u/volumes/kubernetes.io~csi/mount": {
			path: root + "/pods/u/volumes/kubernetes.io~csi/mount/mount", file: root + "/pods/u/volumes/kubernetes.io~csi/mount/vol_data.json",
		},
		root + "/pods/u/volumes/kubernetes.io~csi/v~r": {
			path: root + "/pods/u/volumes/kubernetes.io~csi/v~r",
			file: root + "/plugins/kubernetes.io/csi/.targets/" + hash(root+"/pods/u/volumes/kubernetes.io~csi/v~r") + "/vol_data.json",
		},
		root + "/elsewhere/mount": {
			path: root + "/elsewhere/mount",
			file: root + "/plugins/kubernetes.io/csi/.targets/" + hash(root+"/elsewhere/mount") + "/vol_data.json",
		},
	} {
		have, err := n.plugin.targetOf(written)
		require.NoError(t, err, written)
		require.Equal(t, [2]string{want.path, want.file}, [2]string{have.path, have.file}, written)
	}
	unmounter, err := n.plugin.NewUnmounter("v~r", "u")
	require.NoError(t, err)
	require.Equal(t, root+"/pods/u/volumes/kubernetes.io~csi/v~r", unmounter.GetPath())
	for _, bad := range []string{"/etc", root, root + "/plugins/kubernetes.io/csi/a/b/globalmount", root + "/plugins/kubernetes.io/csi"} {
		_, err := n.plugin.targetOf(bad)
		require.Error(t, err, bad)
	}
	for _, bad := range []string{root + "/plugins/kubernetes.io/csi/a/globalmount", root + "/plugins/kubernetes.io/csi/../x/y/globalmount", root + "/pods/u/volumes/kubernetes.io~csi/v/mount", root + "/plugins/kubernetes.io/csi/.targets/x/globalmount"} {
		require.Error(t, n.unstage(bad), bad)
	}
}

// TestNames: the names are those of a kubelet.
func TestNames(t *testing.T) {
	n := newFakeNode(t)
	name, err := n.plugin.GetVolumeName(n.pv("data"))
	require.NoError(t, err)
	require.Equal(t, "one.example.com^handle-of-data", name)
	driver, handle, ok := splitVolumeName("one.example.com^a^b")
	require.True(t, ok)
	require.Equal(t, [2]string{driverOne, "a^b"}, [2]string{driver, handle})
	// From a kubelet: sha256 of "uid-1data", and of "handle" + "driver" + "node".
	require.Equal(t, "csi-"+hash("uid-1data"), inlineHandle("uid-1", "data"))
	require.Equal(t, "csi-"+hash("handledrivernode"), attachmentName("driver", "handle", "node"))
	backend, err := n.plugin.GetBackendName(n.pv("data"))
	require.NoError(t, err)
	require.Equal(t, driverOne, backend)
}

// TestFsGroupPolicy: the plugin or the driver gives the files of a volume to a group.
func TestFsGroupPolicy(t *testing.T) {
	group := int64(7)
	type change = func(pv *v1.PersistentVolume)
	for name, test := range map[string]struct {
		policy   storagev1.FSGroupPolicy
		change   change
		inline   bool
		readOnly bool
		group    *int64
		want     bool
	}{
		"once with type":    {policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, group: &group, want: true},
		"no group":          {policy: storagev1.FileFSGroupPolicy},
		"read-only":         {policy: storagev1.FileFSGroupPolicy, group: &group, readOnly: true},
		"none":              {policy: storagev1.NoneFSGroupPolicy, group: &group},
		"file":              {policy: storagev1.FileFSGroupPolicy, group: &group, want: true},
		"file without type": {policy: storagev1.FileFSGroupPolicy, group: &group, change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.FSType = "" }, want: true},
		"once without type": {policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, group: &group, change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.FSType = "" }},
		"many":              {policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, group: &group, change: func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany} }},
		"once pod": {policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, group: &group, change: func(pv *v1.PersistentVolume) {
			pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		}, want: true},
		"no modes":               {policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, group: &group, change: func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = nil }},
		"inline without type":    {policy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, group: &group, inline: true},
		"inline with type, file": {policy: storagev1.FileFSGroupPolicy, group: &group, inline: true, want: true},
	} {
		n := &fakeNode{attachments: map[string]map[string]string{}}
		spec := n.pv("data")
		if test.change != nil {
			test.change(spec.PersistentVolume)
		}
		if test.inline {
			spec = inlineSpec("data")
		}
		spec.ReadOnly = test.readOnly
		s, err := sourceOf(spec)
		require.NoError(t, err)
		require.Equal(t, test.want, s.appliesGroup(test.group, test.policy), name)
	}
	require.Equal(t, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, policyFrom(nil).fsGroup)
	require.Equal(t, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, policyFrom(&storagev1.CSIDriver{}).fsGroup)
}

// TestExpiry: the end of a token's life is that of its claim.
func TestExpiry(t *testing.T) {
	token := func(claims string) string { return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s" }
	require.Equal(t, time.Unix(1700000000, 0).UTC(), expiryOf(token(`{"exp":1700000000}`)))
	for _, bad := range []string{"", "a.b", token("{}"), token(`{"exp":-1}`), token(`{"exp":1e300}`), "h.!.s", token("x")} {
		require.True(t, expiryOf(bad).IsZero(), bad)
	}
}

// TestNotRegistered: calls for a driver that is not registered are transient, and change nothing. The
// capabilities are read once for each registration.
func TestNotRegistered(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	before := n.files()
	n.mu.Lock()
	n.registration = 0
	n.mu.Unlock()
	_, measured := n.newMounter(spec).GetMetrics(t.Context())
	_, expanded := n.plugin.NodeExpand(t.Context(), volume.NodeResizeOptions{Spec: spec, NewSize: resource.MustParse("1Gi"), VolumePath: n.newMounter(spec).GetPath()})
	for i, err := range []error{
		n.stage(spec, volume.DeviceMounterArgs{}), n.setUp(spec, volume.MounterArgs{}), n.tearDown("data"), n.unstage(n.stagePath(spec)), measured, expanded,
	} {
		require.ErrorIs(t, err, ErrNotRegistered, i)
		require.Equal(t, volume.Transient, volume.KindOf(err), i)
	}
	require.Equal(t, before, n.files())
	n.mu.Lock()
	n.registration = 2
	n.mu.Unlock()
	n.driver.set(func(d *fakeDriver) { d.requests = nil })
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	require.NoError(t, n.tearDown("data"))
	asked := 0
	n.driver.set(func(d *fakeDriver) {
		for _, r := range d.requests {
			if methodOf(r) == "NodeGetCapabilities" {
				asked++
			}
		}
	})
	require.Equal(t, 1, asked)
}

// TestCapabilitiesFail: an unknown outcome of the call for the capabilities changes no volume.
func TestCapabilitiesFail(t *testing.T) {
	n := newFakeNode(t, capStage)
	n.driver.before = failWith("NodeGetCapabilities", codes.DeadlineExceeded)
	for _, err := range []error{n.stage(n.pv("data"), volume.DeviceMounterArgs{}), n.setUp(n.pv("data"), volume.MounterArgs{})} {
		require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
		require.NotErrorIs(t, err, volume.ErrUncertain)
	}
	require.Empty(t, n.files())
}

// TestOneCallPerVolume: concurrent calls for one volume reach the driver one after the other.
func TestOneCallPerVolume(t *testing.T) {
	n := newFakeNode(t, capStage, capStats, capExpand)
	n.driver.stats = &csipb.NodeGetVolumeStatsResponse{}
	spec := n.pv("data")
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			pod := n.pod.DeepCopy()
			pod.UID = types.UID(fmt.Sprint("uid-", i))
			m, err := n.plugin.NewMounter(spec, pod)
			if err != nil {
				t.Error(err)
				return
			}
			u, _ := n.plugin.NewUnmounter("data", pod.UID)
			for _, err := range []error{
				m.SetUp(context.Background(), volume.MounterArgs{}),
				func() error { _, err := m.GetMetrics(context.Background()); return err }(),
				u.TearDown(context.Background()),
				n.stage(spec, volume.DeviceMounterArgs{}),
			} {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	n.driver.set(func(d *fakeDriver) { require.False(t, d.overlap) })
}

// TestOtherCapabilities: a driver that gains or loses capabilities keeps its volumes usable: the recorded
// calls are repeated, and the group is applied once.
func TestOtherCapabilities(t *testing.T) {
	group := volume.MounterArgs{FsGroup: ptr(int64(os.Getegid())), IsRemount: true}
	with := []rpc{capStage, capSingleNode, capMountGroup}
	for name, test := range map[string]struct {
		before, after []rpc
		mode          v1.PersistentVolumeAccessMode
		other         v1.PersistentVolumeAccessMode
	}{
		"gained":               {with[:1], with, v1.ReadWriteOnce, v1.ReadWriteMany},
		"lost":                 {with, with[:1], v1.ReadWriteOnce, v1.ReadOnlyMany},
		"gained, for one pod":  {with[:1], with, v1.ReadWriteOncePod, v1.ReadWriteMany},
		"lost, for one pod":    {with, with[:1], v1.ReadWriteOncePod, v1.ReadWriteMany},
		"none":                 {with, with, v1.ReadWriteOnce, v1.ReadWriteOncePod},
		"none, with two modes": {with, with, v1.ReadWriteOncePod, v1.ReadWriteOnce},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(t, test.before...)
			n.withObject(storagev1.CSIDriverSpec{FSGroupPolicy: ptr(storagev1.FileFSGroupPolicy)})
			spec := n.pv("data")
			spec.PersistentVolume.Spec.AccessModes = []v1.PersistentVolumeAccessMode{test.mode}
			require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{FsGroup: group.FsGroup}))
			require.NoError(t, n.setUp(spec, group))
			before := n.driver.transcript()
			byDriver := slices.Contains(test.before, capMountGroup)
			require.Equal(t, !byDriver, n.publishedMode("data")&os.ModeSetgid != 0)
			require.NoError(t, os.Chmod(filepath.Dir(n.podFile("data"))+"/mount", 0o700))
			n.driver.set(func(d *fakeDriver) { d.caps = test.after })
			n.registration++
			for range 2 {
				require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{FsGroup: group.FsGroup}))
				require.NoError(t, n.setUp(spec, group))
				requireRequests(t, before, n.driver.transcript())
				require.Equal(t, os.ModeDir|0o700, n.publishedMode("data"), "the pod may have changed it")
				n.restart()
			}
			spec.PersistentVolume.Spec.AccessModes[0] = test.other
			require.ErrorIs(t, n.stage(spec, volume.DeviceMounterArgs{}), volume.ErrAlreadyMounted)
			require.ErrorIs(t, n.setUp(spec, group), volume.ErrAlreadyMounted)
		})
	}
}

// TestGroupOfRecordedCall: the plugin applies the group of a recorded call that has none for the driver.
func TestGroupOfRecordedCall(t *testing.T) {
	n := newFakeNode(t)
	n.withObject(storagev1.CSIDriverSpec{FSGroupPolicy: ptr(storagev1.FileFSGroupPolicy)})
	args := volume.MounterArgs{FsGroup: ptr(int64(os.Getegid()))}
	n.driver.after = failWith("NodePublishVolume", codes.DeadlineExceeded)
	require.Error(t, n.setUp(n.pv("data"), args))
	n.driver.set(func(d *fakeDriver) { d.caps, d.after = []rpc{capMountGroup}, nil })
	n.registration++
	require.NoError(t, n.setUp(n.pv("data"), args))
	require.Equal(t, os.ModeDir|os.ModeSetgid|0o770, n.publishedMode("data"))
}

// TestMissingSecret: a call for a volume names the Secret that it lacks, once, and may succeed later.
func TestMissingSecret(t *testing.T) {
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	spec.PersistentVolume.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "ns", Name: "none"}
	err := n.stage(spec, volume.DeviceMounterArgs{})
	require.ErrorContains(t, err, "secret ns/none not found")
	require.Equal(t, 1, strings.Count(err.Error(), "none"), "%v", err)
	require.Equal(t, volume.Transient, volume.KindOf(err))
}

// TestSecretsStayHidden: no file and no error has a secret or a token.
func TestSecretsStayHidden(t *testing.T) {
	const hidden = "sw0rdfish"
	n := newFakeNode(t, capStage)
	n.token = hidden
	n.withObject(storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{}}})
	n.secrets["ns/s"] = map[string][]byte{"k": []byte(hidden)}
	spec := n.pv("data")
	spec.PersistentVolume.Spec.CSI.NodeStageSecretRef = &v1.SecretReference{Namespace: "ns", Name: "s"}
	spec.PersistentVolume.Spec.CSI.NodePublishSecretRef = spec.PersistentVolume.Spec.CSI.NodeStageSecretRef
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	for _, name := range n.files() {
		text, err := os.ReadFile(filepath.Join(n.host.Root(), name))
		if err == nil {
			require.NotContains(t, string(text), hidden, name)
			require.NotContains(t, string(text), base64.StdEncoding.EncodeToString([]byte(hidden)), name)
			if data, err := n.plugin.files.read(filepath.Join(n.host.Root(), name)); err == nil {
				require.NotContains(t, string(data.Call.Request), hidden, name)
			}
		}
	}
	n.secrets["ns/s"]["bad"] = []byte(hidden + "\xff")
	err := n.setUp(spec, volume.MounterArgs{IsRemount: true})
	require.ErrorContains(t, err, `key "bad"`)
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		require.NotContains(t, fmt.Sprintf(verb, err), hidden)
	}
}

// TestSecretOptionsStayHidden: an error has no password of a mount option.
func TestSecretOptionsStayHidden(t *testing.T) {
	const hidden = "sw0rdfish"
	n := newFakeNode(t)
	spec := n.pv("data")
	spec.PersistentVolume.Spec.MountOptions = []string{"username=user,Password=" + hidden + ",ro", "passwd=" + hidden + ",2nd"}
	n.driver.before = func(request proto.Message) error {
		if r, ok := request.(*csipb.NodePublishVolumeRequest); ok {
			return status.Errorf(codes.Internal, "mount failed: mount -o %s: exit 32", strings.Join(r.VolumeCapability.GetMount().MountFlags, ","))
		}
		return nil
	}
	err := n.setUp(spec, volume.MounterArgs{})
	require.ErrorContains(t, err, "username=user")
	spec.PersistentVolume.Spec.MountOptions[0] += "\n"
	_, refused := n.plugin.NewMounter(spec, n.pod)
	require.ErrorContains(t, refused, "control characters")
	for _, err := range []error{err, refused} {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			require.NotContains(t, fmt.Sprintf(verb, err), hidden)
			require.NotContains(t, fmt.Sprintf(verb, err), "2nd")
		}
	}
}

// TestSecretOptionsOfRecordedCall: no file has the password of a mount option, the recorded call is repeated
// with the password of the specification, and a recovered specification has no option that lacks its own.
func TestSecretOptionsOfRecordedCall(t *testing.T) {
	const hidden = "sw0rdfish"
	n := newFakeNode(t, capStage)
	spec := n.pv("data")
	spec.PersistentVolume.Spec.MountOptions = []string{"noatime", "username=user,password=" + hidden}
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	requireHidden := func() {
		t.Helper()
		for _, file := range []string{n.podFile("data"), filepath.Join(filepath.Dir(n.stagePath(spec)), "vol_data.json")} {
			data, err := n.plugin.files.read(file)
			require.NoError(t, err)
			require.Contains(t, string(data.Call.Request), "noatime")
			require.NotContains(t, string(data.Call.Request), hidden)
		}
	}
	requireHidden()
	before := n.driver.transcript()
	n.restart()
	require.NoError(t, n.stage(spec, volume.DeviceMounterArgs{}))
	require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
	requireRequests(t, before, n.driver.transcript())
	found, err := n.construct("data")
	require.NoError(t, err)
	require.Equal(t, []string{"noatime"}, found.Spec.PersistentVolume.Spec.MountOptions)

	for _, options := range [][]string{{"noatime", "username=user,password=other"}, {"noatime", "username=you,password=" + hidden}} {
		spec.PersistentVolume.Spec.MountOptions = options
		require.NoError(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}))
		require.Equal(t, options, mountFlags(last(n.driver.transcript()).(upRequest)), "as Secrets")
	}
	spec.PersistentVolume.Spec.MountOptions[0] = "relatime"
	require.ErrorIs(t, n.setUp(spec, volume.MounterArgs{IsRemount: true}), volume.ErrAlreadyMounted)
	requireHidden()
}

// TestMetrics: negative numbers are omitted, texts are cut, and the condition needs its capability.
func TestMetrics(t *testing.T) {
	n := newFakeNode(t, capStats)
	spec := n.pv("data")
	m := n.newMounter(spec)
	_, err := m.GetMetrics(t.Context())
	require.ErrorIs(t, err, volume.ErrNotMounted)
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	_, err = m.GetMetrics(t.Context())
	require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
	n.driver.set(func(d *fakeDriver) {
		d.stats = &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
			{Unit: csipb.VolumeUsage_BYTES, Total: 100, Used: -1, Available: 60}, {Unit: csipb.VolumeUsage_INODES, Total: 10, Used: 4, Available: 6}, {Unit: 9, Total: 1},
		}}
		require.NoError(t, condition.Set(d.stats, condition.Condition{Abnormal: true, Message: "bad\n" + strings.Repeat("x", 5000)}))
	})
	metrics, err := m.GetMetrics(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(100), metrics.Capacity.Value())
	require.Nil(t, metrics.Used)
	require.Equal(t, int64(6), metrics.InodesFree.Value())
	require.Nil(t, metrics.Abnormal, "without the capability")
	n.driver.set(func(d *fakeDriver) { d.caps = append(d.caps, capCondition) })
	n.mu.Lock()
	n.registration++
	n.mu.Unlock()
	metrics, err = m.GetMetrics(t.Context())
	require.NoError(t, err)
	require.True(t, *metrics.Abnormal)
	require.NotContains(t, *metrics.Message, "\n")
	require.Less(t, len(*metrics.Message), 2000)
	n = newFakeNode(t)
	require.NoError(t, n.setUp(n.pv("data"), volume.MounterArgs{}))
	_, err = n.newMounter(n.pv("data")).GetMetrics(t.Context())
	require.ErrorIs(t, err, volume.ErrNotSupported)
}

// TestNodeExpand: the request has the paths and the capability, and each answer its kind.
func TestNodeExpand(t *testing.T) {
	n := newFakeNode(t, capStage, capExpand)
	spec := n.pv("data")
	n.secrets["ns/e"] = map[string][]byte{"k": []byte("v")}
	spec.PersistentVolume.Spec.CSI.NodeExpandSecretRef = &v1.SecretReference{Namespace: "ns", Name: "e"}
	options := volume.NodeResizeOptions{
		Spec: spec, NewSize: resource.MustParse("2Gi"), VolumePath: n.newMounter(spec).GetPath(), DeviceStagePath: n.stagePath(spec),
	}
	n.driver.expanded = 2 << 30
	done, err := n.plugin.NodeExpand(t.Context(), options)
	require.NoError(t, err)
	require.True(t, done)
	requireRequests(t, []proto.Message{&csipb.NodeExpandVolumeRequest{
		VolumeId: "handle-of-data", VolumePath: options.VolumePath, StagingTargetPath: options.DeviceStagePath,
		CapacityRange: &csipb.CapacityRange{RequiredBytes: 2 << 30}, Secrets: map[string]string{"k": "v"},
		VolumeCapability: &csipb.VolumeCapability{
			AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
			AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{FsType: "ext4"}},
		},
	}}, n.driver.transcript())
	for size, want := range map[int64]bool{0: true, -1: false, 1 << 30: false, 2 << 30: true, 4 << 30: true} {
		n.driver.set(func(d *fakeDriver) { d.expanded = size })
		done, err := n.plugin.NodeExpand(t.Context(), options)
		require.NoError(t, err)
		require.Equal(t, want, done, size)
	}
	for code, want := range map[codes.Code]error{
		codes.InvalidArgument: volume.ErrInfeasible, codes.OutOfRange: volume.ErrInfeasible, codes.NotFound: volume.ErrInfeasible,
		codes.FailedPrecondition: volume.ErrFailedPrecondition, codes.Aborted: volume.ErrUncertain, codes.DeadlineExceeded: volume.ErrUncertain,
	} {
		n.driver.set(func(d *fakeDriver) { d.before = failWith("NodeExpandVolume", code) })
		done, err := n.plugin.NodeExpand(t.Context(), options)
		require.ErrorIs(t, err, want, code)
		require.False(t, done)
	}
	n.driver.set(func(d *fakeDriver) { d.before = failWith("NodeExpandVolume", codes.Internal) })
	_, err = n.plugin.NodeExpand(t.Context(), options)
	require.Equal(t, volume.Final, volume.KindOf(err))
	options.VolumePath = "/etc"
	_, err = n.plugin.NodeExpand(t.Context(), options)
	require.ErrorContains(t, err, "not below")
	options.VolumePath, options.DeviceStagePath = "", ""
	done, err = n.plugin.NodeExpand(t.Context(), options)
	require.NoError(t, err)
	require.False(t, done)
	n = newFakeNode(t)
	options.VolumePath = n.newMounter(spec).GetPath()
	_, err = n.plugin.NodeExpand(t.Context(), options)
	require.ErrorIs(t, err, volume.ErrNotSupported)
}

// TestInterruptedExpansion: an expansion whose outcome is unknown is repeated before one to another size.
func TestInterruptedExpansion(t *testing.T) {
	n := newFakeNode(t, capExpand)
	options := volume.NodeResizeOptions{Spec: n.pv("data"), NewSize: resource.MustParse("2Gi"), VolumePath: n.newMounter(n.pv("data")).GetPath()}
	n.driver.before = failWith("NodeExpandVolume", codes.DeadlineExceeded)
	for _, size := range []string{"2Gi", "3Gi"} {
		options.NewSize = resource.MustParse(size)
		_, err := n.plugin.NodeExpand(t.Context(), options)
		require.ErrorIs(t, err, volume.ErrUncertain)
	}
	n.driver.set(func(d *fakeDriver) { d.before = nil })
	_, err := n.plugin.NodeExpand(t.Context(), options)
	require.NoError(t, err)
	var sizes []int64
	for _, r := range n.driver.transcript() {
		sizes = append(sizes, r.(*csipb.NodeExpandVolumeRequest).CapacityRange.RequiredBytes>>30)
	}
	require.Equal(t, []int64{2, 2, 2, 3}, sizes)
}

// TestExpansionOfUnpublishedPath: an expansion whose outcome is unknown is not repeated at a path that is no
// longer published.
func TestExpansionOfUnpublishedPath(t *testing.T) {
	n := newFakeNode(t, capExpand)
	spec := n.pv("data")
	expand := func(size string) error {
		_, err := n.plugin.NodeExpand(t.Context(), volume.NodeResizeOptions{Spec: spec, NewSize: resource.MustParse(size), VolumePath: n.newMounter(spec).GetPath()})
		return err
	}
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	n.driver.set(func(d *fakeDriver) { d.before = failWith("NodeExpandVolume", codes.DeadlineExceeded) })
	require.ErrorIs(t, expand("2Gi"), volume.ErrUncertain)
	n.driver.set(func(d *fakeDriver) { d.before = nil })
	require.NoError(t, n.tearDown("data"))
	n.pod.UID = "uid-2"
	require.NoError(t, n.setUp(spec, volume.MounterArgs{}))
	n.driver.transcript()
	require.NoError(t, expand("3Gi"))
	require.Equal(t, []string{"NodeExpandVolume"}, n.driver.methods())
}

// TestAttacher: the node waits for the attachment, and ends the interest.
func TestAttacher(t *testing.T) {
	n := newFakeNode(t)
	spec := n.pv("data")
	a, err := n.plugin.NewAttacher()
	require.NoError(t, err)
	name, err := a.WaitForAttach(t.Context(), spec, "", n.pod)
	require.NoError(t, err)
	require.Equal(t, attachmentName(driverOne, "handle-of-data", "node-1"), name)
	_, err = a.Attach(t.Context(), spec, "node-2")
	require.ErrorIs(t, err, volume.ErrNotSupported)
	other := n.pv("other")
	delete(n.attachments, volumeName(driverOne, "handle-of-other"))
	_, err = a.Attach(t.Context(), other, "node-1")
	require.ErrorIs(t, err, errUnattached)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	err = n.setUp(other, volume.MounterArgs{})
	require.ErrorIs(t, err, errUnattached)
	require.Empty(t, n.files())
	n.attachments[volumeName(driverOne, "handle-of-detached")] = nil
	gone := n.pv("detached")
	attached, err := a.VolumesAreAttached(t.Context(), []*volume.Spec{spec, other, gone}, "node-1")
	require.NoError(t, err)
	require.Equal(t, map[*volume.Spec]bool{spec: true, other: true, gone: false}, attached)
	d, err := n.plugin.NewDetacher()
	require.NoError(t, err)
	require.NoError(t, d.Detach(t.Context(), volume.DetachRequest{VolumeName: "one.example.com^handle-of-data", Node: "node-1"}))
	require.Equal(t, []string{"one.example.com^handle-of-data"}, n.released)
	n.withObject(storagev1.CSIDriverSpec{AttachRequired: ptr(false)})
	can, err := n.plugin.CanAttach(t.Context(), spec)
	require.NoError(t, err)
	require.False(t, can)
	require.NoError(t, n.setUp(other, volume.MounterArgs{}))
	require.Empty(t, last(n.driver.transcript()).(*csipb.NodePublishVolumeRequest).PublishContext)
}

// TestConfig: a plugin without its required sources, or before Init, returns errors.
func TestConfig(t *testing.T) {
	n := newFakeNode(t)
	require.ErrorContains(t, New(Config{Drivers: n}).Init(t.Context(), n.host), "Config.Mounter")
	require.ErrorContains(t, New(Config{Mounter: n.mounter}).Init(t.Context(), n.host), "Config.Drivers")
	p := New(Config{})
	_, err := p.NewUnmounter("a", "b")
	require.ErrorIs(t, err, errNotInitialised)
	_, err = p.NewDeviceMounter()
	require.ErrorIs(t, err, errNotInitialised)
	_, err = p.NewBlockVolumeUnmapper("a", "b")
	require.ErrorIs(t, err, errNotInitialised)
}
