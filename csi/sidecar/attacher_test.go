package sidecar_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/volume"
)

// newVolume returns a volume of the driver with the handle "v", after a change.
func newVolume(change func(*v1.PersistentVolume)) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "v"}},
	}}
	if change != nil {
		change(pv)
	}
	return pv
}

// addVolume adds the volume "v" to the driver.
func (w *world) addVolume(context map[string]string) {
	w.driver.AddVolume(csitest.Volume{ID: "v", Capacity: 1 << 30, Context: context})
}

func (w *world) attacher() attachment.Attacher {
	a, err := sidecar.NewAttacher(w.open(), w.cluster, "")
	require.NoError(w, err)
	require.Equal(w, driverName, a.Name())
	return a
}

// TestPublishCalls: the calls to attach a volume have these arguments.
func TestPublishCalls(t *testing.T) {
	const call = "ControllerPublishVolume volume_id=v node_id=id-a volume_capability={mount={} access_mode={mode=SINGLE_NODE_MULTI_WRITER}}"
	modes := func(modes ...v1.PersistentVolumeAccessMode) func(*v1.PersistentVolume) {
		return func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = modes }
	}
	for _, c := range []struct {
		name   string
		lacks  []csipb.ControllerServiceCapability_RPC_Type
		change func(*v1.PersistentVolume)
		call   string
		err    string
	}{
		{name: "a volume", call: call},
		{name: "plain modes", lacks: []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER},
			call: "ControllerPublishVolume volume_id=v node_id=id-a volume_capability={mount={} access_mode={mode=SINGLE_NODE_WRITER}}"},
		{name: "one pod", change: modes(v1.ReadWriteOncePod),
			call: "ControllerPublishVolume volume_id=v node_id=id-a volume_capability={mount={} access_mode={mode=SINGLE_NODE_SINGLE_WRITER}}"},
		{name: "many writers", change: modes(v1.ReadWriteOnce, v1.ReadWriteMany),
			call: "ControllerPublishVolume volume_id=v node_id=id-a volume_capability={mount={} access_mode={mode=MULTI_NODE_MULTI_WRITER}}"},
		{name: "readers", change: modes(v1.ReadOnlyMany),
			call: "ControllerPublishVolume volume_id=v node_id=id-a volume_capability={mount={} access_mode={mode=MULTI_NODE_READER_ONLY}}"},
		{name: "readers and a writer", change: modes(v1.ReadOnlyMany, v1.ReadWriteOnce), err: "no access mode of the specification"},
		{name: "no mode", change: modes(), err: "accessModes"},
		{name: "unknown mode", change: modes("Sometimes"), err: "unknown access mode"},
		{name: "read-only", change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.ReadOnly = true }, call: call + " readonly=true"},
		{name: "read-only without the capability", lacks: []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_PUBLISH_READONLY},
			change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.ReadOnly = true }, call: call},
		{name: "file system, options and context", change: func(pv *v1.PersistentVolume) {
			pv.Spec.MountOptions, pv.Spec.CSI.FSType = []string{"noatime"}, "xfs"
			pv.Spec.CSI.VolumeAttributes = map[string]string{"tier": "fast"}
		}, call: "ControllerPublishVolume volume_id=v node_id=id-a volume_capability={mount={fs_type=xfs mount_flags=[noatime]} access_mode={mode=SINGLE_NODE_MULTI_WRITER}} volume_context={tier=fast}"},
		{name: "block", change: func(pv *v1.PersistentVolume) {
			mode := v1.PersistentVolumeBlock
			pv.Spec.VolumeMode, pv.Spec.CSI.FSType = &mode, "xfs"
		}, call: "ControllerPublishVolume volume_id=v node_id=id-a volume_capability={block={} access_mode={mode=SINGLE_NODE_MULTI_WRITER}}"},
		{name: "secret", change: func(pv *v1.PersistentVolume) {
			pv.Spec.CSI.ControllerPublishSecretRef = &v1.SecretReference{Namespace: "storage", Name: "login"}
		}, call: call + " secrets={password}"},
		{name: "missing secret", change: func(pv *v1.PersistentVolume) {
			pv.Spec.CSI.ControllerPublishSecretRef = &v1.SecretReference{Namespace: "storage", Name: "none"}
		}, err: "secret storage/none not found"},
		{name: "another driver", change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "other" }, err: "not one of driver"},
		{name: "no handle", change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "" }, err: "no handle"},
		{name: "another source", change: func(pv *v1.PersistentVolume) { pv.Spec.CSI = nil }, err: "not one of driver"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, without(all, c.lacks...), func(w *world) {
				w.createSecret("storage", "login")
				pv := newVolume(c.change)
				if pv.Spec.CSI != nil {
					w.addVolume(pv.Spec.CSI.VolumeAttributes)
				}
				a, request := w.attacher(), attachment.Request{Volume: pv, Node: "a", NodeID: "id-a"}
				checked := a.(attachment.Checker).Check(w.Context(), pv)
				metadata, err := a.Attach(w.Context(), request)
				if c.call == "" {
					require.ErrorContains(w, err, c.err)
					require.EqualError(w, checked, err.Error())
					require.Equal(w, volume.Transient, volume.KindOf(err))
					require.Empty(w, w.texts(csitest.ControllerPublishVolume))
					return
				}
				require.NoError(w, errors.Join(checked, err))
				require.Equal(w, map[string]string{"device": "7"}, metadata)
				require.Equal(w, []string{c.call}, w.texts(csitest.ControllerPublishVolume))
				require.NoError(w, a.Detach(w.Context(), request))
				want := "ControllerUnpublishVolume volume_id=v node_id=id-a"
				if pv.Spec.CSI.ControllerPublishSecretRef != nil {
					want += " secrets={password}"
				}
				require.Equal(w, []string{want}, w.texts(csitest.ControllerUnpublishVolume))
				require.Empty(w, w.driver.Violations())
			})
		})
	}
}

// TestDetachWithoutSecret: a volume whose Secret was deleted is detached by a call without secrets, and not if the Secret
// cannot be read.
func TestDetachWithoutSecret(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.addVolume(nil)
		cluster := w.server.Connect("detacher")
		a, err := sidecar.NewAttacher(w.open(), cluster, "")
		require.NoError(w, err)
		request := attachment.Request{Volume: newVolume(func(pv *v1.PersistentVolume) {
			pv.Spec.CSI.ControllerPublishSecretRef = &v1.SecretReference{Namespace: "storage", Name: "gone"}
		}), Node: "a", NodeID: "id-a"}
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "detacher"}, Failure: apitest.InternalError, Times: 1})
		require.ErrorContains(w, a.Detach(w.Context(), request), "secret storage/gone: ")
		require.Empty(w, w.texts(csitest.ControllerUnpublishVolume))
		require.NoError(w, a.Detach(w.Context(), request))
		require.Equal(w, []string{"ControllerUnpublishVolume volume_id=v node_id=id-a"}, w.texts(csitest.ControllerUnpublishVolume))
		require.Empty(w, w.driver.Violations())
	})
}

// TestNoNodeID: a call without a node, which would detach the volume from all nodes, is never made.
func TestNoNodeID(t *testing.T) {
	inWorld(t, all, func(w *world) {
		a, request := w.attacher(), attachment.Request{Volume: newVolume(nil), Node: "a"}
		_, err := a.Attach(w.Context(), request)
		require.ErrorContains(w, err, `no ID for node "a"`)
		require.ErrorContains(w, a.Detach(w.Context(), request), `no ID for node "a"`)
		require.Empty(w, w.texts(csitest.ControllerPublishVolume, csitest.ControllerUnpublishVolume))
	})
}

// TestCodesOfAttachments: after an error the volume is in the state that the code states, and no code of
// ControllerUnpublishVolume means that the volume is detached.
func TestCodesOfAttachments(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		inWorld(t, all, func(w *world) {
			w.addVolume(nil)
			w.driver.Inject(csitest.Fault{Method: csitest.ControllerPublishVolume, Code: code})
			w.driver.Inject(csitest.Fault{Method: csitest.ControllerUnpublishVolume, Code: code})
			kind := volume.Final
			switch code {
			case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
				kind = volume.Uncertain
			}
			a, request := w.attacher(), attachment.Request{Volume: newVolume(nil), Node: "a", NodeID: "id-a"}
			_, err := a.Attach(w.Context(), request)
			require.Equal(w, kind, volume.KindOf(err), "%v", err)
			require.Equal(w, kind, volume.KindOf(a.Detach(w.Context(), request)))
		})
	}
}

// TestListAttached: the list has all pages.
func TestListAttached(t *testing.T) {
	inWorld(t, all, func(w *world) {
		for i := range 5 {
			id := fmt.Sprint("v", i)
			w.driver.AddVolume(csitest.Volume{ID: id})
			w.driver.Attach(id, "id-a", nil)
		}
		lister := w.attacher().(attachment.Lister)
		attached, err := lister.ListAttached(w.Context())
		require.NoError(w, err)
		require.Len(w, attached, 5)
		require.Equal(w, attachment.Attached{VolumeHandle: "v0", NodeIDs: []string{"id-a"}}, attached[0])

		pages := 0 // the second one has the last volume alone
		w.driver.Inject(csitest.Fault{Method: csitest.ListVolumes, Answer: func(answer proto.Message) {
			if pages++; pages == 1 {
				answer.(*csipb.ListVolumesResponse).NextToken = "4"
			}
		}})
		attached, err = lister.ListAttached(w.Context())
		require.NoError(w, err)
		require.Len(w, attached, 6)

		w.driver.ClearFaults()
		w.driver.Inject(csitest.Fault{Method: csitest.ListVolumes, Code: codes.Internal})
		_, err = lister.ListAttached(w.Context())
		require.Error(w, err)
	})
}

// TestEndlessList: a driver that never ends its list costs a bounded memory: with many entries, and with long
// ones.
func TestEndlessList(t *testing.T) {
	id := strings.Repeat("x", 1<<20)
	nodes := &csipb.ListVolumesResponse_VolumeStatus{PublishedNodeIds: []string{id, id}}
	requireEnd(t, make([]*csipb.ListVolumesResponse_Entry, 1<<20), 3)
	requireEnd(t, []*csipb.ListVolumesResponse_Entry{{Volume: &csipb.Volume{VolumeId: id}, Status: nodes}}, 43)
}

// requireEnd requires that a list ends at a page, if each has these entries.
func requireEnd(t *testing.T, entries []*csipb.ListVolumesResponse_Entry, last int) {
	t.Helper()
	inWorld(t, all, func(w *world) {
		pages := 0
		w.driver.Inject(csitest.Fault{Method: csitest.ListVolumes, Answer: func(answer proto.Message) {
			if pages++; pages > last+1 {
				return // the test need not fill the memory to fail
			}
			list := answer.(*csipb.ListVolumesResponse)
			list.Entries, list.NextToken = entries, strconv.Itoa(0)
		}})
		_, err := w.attacher().(attachment.Lister).ListAttached(w.Context())
		require.ErrorContains(w, err, "does not end")
		require.Len(w, w.texts(csitest.ListVolumes), last)
	})
}

// TestNoList: a driver that does not report the nodes of its volumes is not asked for them.
func TestNoList(t *testing.T) {
	inWorld(t, without(all, csipb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES), func(w *world) {
		_, ok := w.attacher().(attachment.Lister)
		require.False(w, ok)
	})
	inWorld(t, without(all, csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME), func(w *world) {
		_, err := sidecar.NewAttacher(w.open(), w.cluster, "")
		require.ErrorIs(w, err, volume.ErrNotSupported)
	})
}

// TestExpandCalls: the call to expand a volume has these arguments, and its answer is the result.
func TestExpandCalls(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.createSecret("storage", "login")
		w.addVolume(nil)
		e, err := sidecar.NewExpander(w.open(), w.cluster, "ext4")
		require.NoError(w, err)
		pv := newVolume(func(pv *v1.PersistentVolume) {
			pv.Spec.CSI.ControllerExpandSecretRef = &v1.SecretReference{Namespace: "storage", Name: "login"}
		})
		require.Equal(w, driverName, e.Name(pv))
		require.Empty(w, e.Name(&v1.PersistentVolume{}))
		require.Empty(w, e.Name(newVolume(func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "other" })))
		request := volume.ExpandRequest{Spec: volume.NewSpecFromPersistentVolume(pv, false), NewSize: resource.MustParse("2Gi"), OldSize: resource.MustParse("1Gi")}
		result, err := e.Expand(w.Context(), request)
		require.NoError(w, err)
		require.Equal(w, "2Gi", result.Size.String())
		require.False(w, result.NodeExpansionRequired)
		require.Equal(w, []string{"ControllerExpandVolume volume_id=v capacity_range={required_bytes=2147483648} volume_capability={mount={fs_type=ext4} access_mode={mode=SINGLE_NODE_MULTI_WRITER}} secrets={password}"}, w.texts(csitest.ControllerExpandVolume))

		for size, text := range map[string]string{"0": "more than 0", "1e99999999": "too large"} {
			request.NewSize = resource.MustParse(size)
			_, err = e.Expand(w.Context(), request)
			require.ErrorContains(w, err, text)
			require.ErrorIs(w, err, volume.ErrInfeasible)
		}
		require.Empty(w, w.driver.Violations())
	})
}

// TestCodesOfExpansions: each code of ControllerExpandVolume has the outcome that package expand acts on.
func TestCodesOfExpansions(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		inWorld(t, all, func(w *world) {
			w.addVolume(nil)
			w.driver.Inject(csitest.Fault{Method: csitest.ControllerExpandVolume, Code: code})
			e, err := sidecar.NewExpander(w.open(), w.cluster, "")
			require.NoError(w, err)
			_, err = e.Expand(w.Context(), volume.ExpandRequest{Spec: volume.NewSpecFromPersistentVolume(newVolume(nil), false), NewSize: resource.MustParse("2Gi")})
			kind := volume.Final
			switch code {
			case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
				kind = volume.Uncertain
			case codes.FailedPrecondition:
				kind = volume.Transient
			}
			require.Equal(w, kind, volume.KindOf(err), "%v", err)
			isInfeasible := code == codes.InvalidArgument || code == codes.OutOfRange || code == codes.NotFound
			require.Equal(w, isInfeasible, errors.Is(err, volume.ErrInfeasible), "%v", err)
		})
	}
}

// TestExpansionOnNodes: a driver that expands on nodes alone is not called.
func TestExpansionOnNodes(t *testing.T) {
	onNodes := without(all, csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	inWorld(t, onNodes, func(w *world) {
		_, err := sidecar.NewExpander(w.open(), w.cluster, "")
		require.ErrorIs(w, err, volume.ErrNotSupported)
	})
	onNodes.Node = []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_EXPAND_VOLUME}
	inWorld(t, onNodes, func(w *world) {
		e, err := sidecar.NewExpander(w.open(), w.cluster, "")
		require.NoError(w, err)
		result, err := e.Expand(w.Context(), volume.ExpandRequest{Spec: volume.NewSpecFromPersistentVolume(newVolume(nil), false), NewSize: resource.MustParse("2Gi")})
		require.NoError(w, err)
		require.True(w, result.NodeExpansionRequired)
		require.Equal(w, "2Gi", result.Size.String())
		require.Empty(w, w.texts(csitest.ControllerExpandVolume))
	})
}
