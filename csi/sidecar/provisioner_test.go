package sidecar_test

import (
	"context"
	"errors"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/volume"
)

const (
	createWriter = "CreateVolume name=pvc-c capacity_range={required_bytes=1073741824} volume_capabilities=[{mount={} access_mode={mode=SINGLE_NODE_MULTI_WRITER}}]"
	parameterKey = "csi.storage.k8s.io/"
)

// A createCase is a claim of a class, with the call of CreateVolume for it, or the error without a call.
type createCase struct {
	name       string
	parameters map[string]string
	class      func(*storagev1.StorageClass)
	claim      func(*v1.PersistentVolumeClaim)
	options    func(*world, *provision.Options)
	config     sidecar.ProvisionConfig
	lacks      []csipb.ControllerServiceCapability_RPC_Type
	before     func(*world)
	call       string // "": none
	err        string
	kind       error
}

var createCases = []createCase{
	{name: "a claim", call: createWriter},
	{name: "without the modes for one node", lacks: []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER},
		call: "CreateVolume name=pvc-c capacity_range={required_bytes=1073741824} volume_capabilities=[{mount={} access_mode={mode=SINGLE_NODE_WRITER}}]"},
	{name: "all modes", claim: func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany}
	}, call: "CreateVolume name=pvc-c capacity_range={required_bytes=1073741824} volume_capabilities=[{mount={} access_mode={mode=SINGLE_NODE_MULTI_WRITER}} {mount={} access_mode={mode=MULTI_NODE_READER_ONLY}} {mount={} access_mode={mode=MULTI_NODE_MULTI_WRITER}}]"},
	{name: "one pod", claim: func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}, call: "CreateVolume name=pvc-c capacity_range={required_bytes=1073741824} volume_capabilities=[{mount={} access_mode={mode=SINGLE_NODE_SINGLE_WRITER}}]"},
	{name: "block", parameters: map[string]string{parameterKey + "fstype": "xfs"}, claim: func(c *v1.PersistentVolumeClaim) {
		mode := v1.PersistentVolumeBlock
		c.Spec.VolumeMode = &mode
	}, call: "CreateVolume name=pvc-c capacity_range={required_bytes=1073741824} volume_capabilities=[{block={} access_mode={mode=SINGLE_NODE_MULTI_WRITER}}]"},
	{name: "file system and options", parameters: map[string]string{parameterKey + "fstype": "xfs", "tier": "fast"},
		class: func(c *storagev1.StorageClass) { c.MountOptions = []string{"noatime"} },
		call:  "CreateVolume name=pvc-c capacity_range={required_bytes=1073741824} volume_capabilities=[{mount={fs_type=xfs mount_flags=[noatime]} access_mode={mode=SINGLE_NODE_MULTI_WRITER}}] parameters={tier=fast}"},
	{name: "older file system", parameters: map[string]string{"FSType": "xfs"}, config: sidecar.ProvisionConfig{DefaultFSType: "ext4"},
		call: "CreateVolume name=pvc-c capacity_range={required_bytes=1073741824} volume_capabilities=[{mount={fs_type=xfs} access_mode={mode=SINGLE_NODE_MULTI_WRITER}}] parameters={FSType=xfs}"},
	{name: "default file system", config: sidecar.ProvisionConfig{DefaultFSType: "ext4"},
		call: "CreateVolume name=pvc-c capacity_range={required_bytes=1073741824} volume_capabilities=[{mount={fs_type=ext4} access_mode={mode=SINGLE_NODE_MULTI_WRITER}}]"},
	{name: "two file systems", parameters: map[string]string{"fstype": "xfs", parameterKey + "fstype": "ext4"}, err: "more than one value", kind: volume.ErrInfeasible},
	{name: "metadata", config: sidecar.ProvisionConfig{ExtraCreateMetadata: true},
		call: createWriter + " parameters={csi.storage.k8s.io/pv/name=pvc-c csi.storage.k8s.io/pvc/name=c csi.storage.k8s.io/pvc/namespace=team}"},
	{name: "unknown reserved parameter", parameters: map[string]string{parameterKey + "future": "x"}, err: `"csi.storage.k8s.io/future"`, kind: volume.ErrInfeasible},
	{name: "empty reserved parameter", parameters: map[string]string{parameterKey + "fstype": ""}, err: "must not be empty", kind: volume.ErrInfeasible},
	{name: "selector", claim: func(c *v1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }, err: "no selector", kind: volume.ErrInfeasible},
	{name: "size of zero", claim: func(c *v1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("0")
	}, err: "more than 0", kind: volume.ErrInfeasible},
	{name: "huge size", claim: func(c *v1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("1e9999999")
	}, err: "too large", kind: volume.ErrInfeasible},
	{name: "mutable parameters", options: func(_ *world, o *provision.Options) {
		o.VolumeAttributesClass = volume.VolumeAttributesClass{Name: "gold", DriverName: driverName, Parameters: map[string]string{"iops": "9"}}
	}, call: createWriter + " mutable_parameters={iops=9}"},
	{name: "mutable parameters of another driver", lacks: []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME},
		options: func(_ *world, o *provision.Options) {
			o.VolumeAttributesClass = volume.VolumeAttributesClass{Name: "gold"}
		},
		err: "MODIFY_VOLUME", kind: volume.ErrInfeasible},
	{name: "secret", parameters: map[string]string{parameterKey + "provisioner-secret-name": "login", parameterKey + "provisioner-secret-namespace": "storage"},
		before: func(w *world) { w.createSecret("storage", "login") }, call: createWriter + " secrets={password}"},
	{name: "default secret", parameters: map[string]string{parameterKey + "secret-name": "login", parameterKey + "secret-namespace": "storage"},
		before: func(w *world) { w.createSecret("storage", "login") }, call: createWriter + " secrets={password}"},
	{name: "secret of the claim", parameters: map[string]string{parameterKey + "provisioner-secret-name": "${pvc.name}-${pvc.annotations['team.example/key']}", parameterKey + "provisioner-secret-namespace": "${pvc.namespace}"},
		claim:  func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{"team.example/key": "login"} },
		before: func(w *world) { w.createSecret(namespace, "c-login") }, call: createWriter + " secrets={password}"},
	{name: "secret of the volume", parameters: map[string]string{parameterKey + "provisioner-secret-name": "${pv.name}", parameterKey + "provisioner-secret-namespace": "storage"},
		before: func(w *world) { w.createSecret("storage", "pvc-c") }, call: createWriter + " secrets={password}"},
	{name: "missing secret", parameters: map[string]string{parameterKey + "provisioner-secret-name": "login", parameterKey + "provisioner-secret-namespace": "storage"},
		err: "secret storage/login not found"},
	{name: "name without a namespace", parameters: map[string]string{parameterKey + "node-stage-secret-name": "login"}, err: "node-stage: the class must have both", kind: volume.ErrInfeasible},
	{name: "tenants choose no namespace", parameters: map[string]string{parameterKey + "provisioner-secret-name": "login", parameterKey + "provisioner-secret-namespace": "${pvc.name}"},
		err: "${pvc.name} has no value", kind: volume.ErrInfeasible},
	{name: "invalid namespace", parameters: map[string]string{parameterKey + "provisioner-secret-name": "login", parameterKey + "provisioner-secret-namespace": "a.b"},
		err: "is not the name of an object", kind: volume.ErrInfeasible},
	{name: "hostile annotation", parameters: map[string]string{parameterKey + "provisioner-secret-name": "${pvc.annotations['k']}", parameterKey + "provisioner-secret-namespace": "storage"},
		claim: func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{"k": "../storage/root"} }, err: "is not the name of an object", kind: volume.ErrInfeasible},
	{name: "annotation with a token", parameters: map[string]string{parameterKey + "provisioner-secret-name": "${pvc.annotations['k']}", parameterKey + "provisioner-secret-namespace": "storage"},
		claim: func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{"k": "${pvc.namespace}"} }, err: "is not the name of an object", kind: volume.ErrInfeasible},
	{name: "missing annotation", parameters: map[string]string{parameterKey + "provisioner-secret-name": "${pvc.annotations['k']}", parameterKey + "provisioner-secret-namespace": "storage"},
		err: "has no value", kind: volume.ErrInfeasible},

	{name: "selected node", options: func(w *world, o *provision.Options) { o.SelectedNode = w.createNode("a", "north") },
		before: func(w *world) { w.createNode("b", "south") },
		call:   createWriter + " accessibility_requirements={requisite=[{segments={zone=north}} {segments={zone=south}}] preferred=[{segments={zone=north}} {segments={zone=south}}]}"},
	{name: "strict topology", options: func(w *world, o *provision.Options) { o.SelectedNode = w.createNode("a", "north") },
		before: func(w *world) { w.createNode("b", "south") }, config: sidecar.ProvisionConfig{StrictTopology: true},
		call: createWriter + " accessibility_requirements={requisite=[{segments={zone=north}}] preferred=[{segments={zone=north}}]}"},
	{name: "immediate topology", before: func(w *world) { w.createNode("b", "south") },
		call: createWriter + " accessibility_requirements={requisite=[{segments={zone=south}}] preferred=[{segments={zone=south}}]}"},
	{name: "no immediate topology", before: func(w *world) { w.createNode("b", "south") }, config: sidecar.ProvisionConfig{WithoutImmediateTopology: true}, call: createWriter},
	{name: "without topology", before: func(w *world) { w.createNode("b", "south") }, config: sidecar.ProvisionConfig{WithoutTopology: true}, call: createWriter},
	{name: "node without the driver", options: func(w *world, o *provision.Options) {
		o.SelectedNode = create(w, w.cluster.Nodes(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	}, err: `node "a" lacks the topology`, kind: volume.ErrReschedule},
	{name: "allowed topology", before: func(w *world) { w.createNode("b", "south") }, class: allowZones("east", "west"),
		call: createWriter + " accessibility_requirements={requisite=[{segments={zone=east}} {segments={zone=west}}] preferred=[{segments={zone=east}} {segments={zone=west}}]}"},
	{name: "node outside of the allowed topologies", class: allowZones("east"),
		options: func(w *world, o *provision.Options) { o.SelectedNode = w.createNode("a", "north") }, err: "does not allow", kind: volume.ErrReschedule},

	{name: "copy", before: func(w *world) { w.createBound("source", "1Gi", nil) }, claim: fromClaim("source"),
		call: createWriter + " volume_content_source={volume={volume_id=handle-source}}"},
	{name: "copy without the capability", lacks: []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_CLONE_VOLUME},
		before: func(w *world) { w.createBound("source", "1Gi", nil) }, claim: fromClaim("source"), err: "CLONE_VOLUME", kind: volume.ErrInfeasible},
	{name: "copy of a missing claim", claim: fromClaim("source"), err: "does not exist"},
	{name: "copy of a larger volume", before: func(w *world) { w.createBound("source", "2Gi", nil) }, claim: fromClaim("source"), err: "has 2Gi", kind: volume.ErrInfeasible},
	{name: "copy of another driver's volume", before: func(w *world) {
		w.createBound("source", "1Gi", func(pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "other.example.com" })
	}, claim: fromClaim("source"), err: "not one of driver", kind: volume.ErrInfeasible},
	{name: "copy of the volume of another claim", before: func(w *world) {
		w.createBound("source", "1Gi", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = "other" })
	}, claim: fromClaim("source"), err: "bound to another claim", kind: volume.ErrInfeasible},
	{name: "copy of a block volume", before: func(w *world) {
		w.createBound("source", "1Gi", func(pv *v1.PersistentVolume) {
			mode := v1.PersistentVolumeBlock
			pv.Spec.VolumeMode = &mode
		})
	}, claim: fromClaim("source"), err: "another volume mode", kind: volume.ErrInfeasible},
	{name: "copy from another namespace", claim: func(c *v1.PersistentVolumeClaim) {
		other := "other"
		c.Spec.DataSourceRef = &v1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "source", Namespace: &other}
	}, err: "namespace of the claim", kind: volume.ErrInfeasible},
	{name: "snapshot", claim: func(c *v1.PersistentVolumeClaim) {
		group := "snapshot.storage.k8s.io"
		c.Spec.DataSource = &v1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "s"}
	}, err: "snapshots are not supported", kind: volume.ErrInfeasible},
}

// allowZones allows zones in a class.
func allowZones(zones ...string) func(*storagev1.StorageClass) {
	return func(c *storagev1.StorageClass) {
		c.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone", Values: zones}}}}
	}
}

// fromClaim makes a claim a copy of another one.
func fromClaim(name string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.DataSource = &v1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: name}
	}
}

// createBound creates a claim and a volume that are bound to each other.
func (w *world) createBound(name, size string, change func(*v1.PersistentVolume)) *v1.PersistentVolumeClaim {
	claim := newClaim(name)
	claim.Spec.VolumeName = "pv-" + name
	claim.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse(size)
	claim = create(w, w.cluster.PersistentVolumeClaims(namespace), claim)
	claim.Status = v1.PersistentVolumeClaimStatus{
		Phase: v1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
	}
	claim, err := w.cluster.PersistentVolumeClaims(namespace).UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}, Spec: v1.PersistentVolumeSpec{
		AccessModes: claim.Spec.AccessModes, Capacity: claim.Status.Capacity.DeepCopy(), StorageClassName: "class",
		ClaimRef:                      &v1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID},
		PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
		PersistentVolumeSource:        v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "handle-" + name}},
	}}
	if change != nil {
		change(pv)
	}
	create(w, w.cluster.PersistentVolumes(), pv)
	w.driver.AddVolume(csitest.Volume{ID: "handle-" + name, Capacity: 1 << 30})
	return claim
}

// prepare creates the objects of a case, and returns the options of its claim.
func (c createCase) prepare(w *world) provision.Options {
	class, claim := w.createClass(c.parameters, c.class), newClaim("c")
	if c.claim != nil {
		c.claim(claim)
	}
	if c.before != nil {
		c.before(w)
	}
	o := w.options(class, claim)
	if c.options != nil {
		c.options(w, &o)
	}
	return o
}

// TestCreateVolume: the call of CreateVolume for a claim has these arguments, and no other ones. An error before the
// call leaves open whether an earlier call has created the volume.
func TestCreateVolume(t *testing.T) {
	require.GreaterOrEqual(t, len(createCases), 40)
	for _, c := range createCases {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, without(all, c.lacks...), func(w *world) {
				o := c.prepare(w)
				_, err := w.provisioner(c.config).Provision(w.Context(), o)
				calls := w.texts(csitest.CreateVolume)
				require.Empty(w, w.driver.Violations())
				if c.call != "" {
					require.NoError(w, err)
					require.Equal(w, []string{c.call}, calls)
					return
				}
				require.Empty(w, calls)
				require.ErrorContains(w, err, c.err)
				require.Equal(w, volume.Transient, volume.KindOf(err), "%v", err)
				if c.kind != nil {
					require.ErrorIs(w, err, c.kind)
				}
			})
		})
	}
}

// TestVolumeMayExist: an earlier run may have called CreateVolume for a claim. The call is made also if a check would
// prevent a first call, and then the volume is refused.
func TestVolumeMayExist(t *testing.T) {
	found := map[string]bool{
		"node without the driver": true, "node outside of the allowed topologies": true, "copy of a larger volume": true,
	}
	for _, c := range createCases {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, without(all, c.lacks...), func(w *world) {
				o := c.prepare(w)
				o.MayExist = true
				pv, err := w.provisioner(c.config).Provision(w.Context(), o)
				calls := w.texts(csitest.CreateVolume)
				require.Len(w, calls, 1)
				require.NotNil(w, pv)
				if c.call != "" || found[c.name] {
					require.NoError(w, err)
					require.True(w, c.call == "" || c.call == calls[0], calls[0])
					return
				}
				require.ErrorAs(w, err, new(*provision.RefusalError))
				require.ErrorContains(w, err, c.err)
			})
		})
	}
}

// TestSourceErrors: a refused data source has an error of its own type.
func TestSourceErrors(t *testing.T) {
	inWorld(t, all, func(w *world) {
		claim := newClaim("c")
		fromClaim("source")(claim)
		_, err := w.provisioner(sidecar.ProvisionConfig{}).Provision(w.Context(), w.options(w.createClass(nil, nil), claim))
		var refused *sidecar.SourceError
		require.ErrorAs(w, err, &refused)
		require.Equal(w, "source", refused.Name)

		group := "populator.example.com"
		claim.Spec.DataSource, claim.Spec.DataSourceRef = nil, &v1.TypedObjectReference{APIGroup: &group, Kind: "Backup", Name: "b"}
		_, err = w.provisioner(sidecar.ProvisionConfig{}).Provision(w.Context(), w.options(w.createClass(nil, func(c *storagev1.StorageClass) { c.Name = "other" }), claim))
		require.ErrorAs(w, err, new(*volume.IgnoredError))
	})
}

// TestVolumeObject: the object of a volume has all that attaching, mounting and deleting the volume need.
func TestVolumeObject(t *testing.T) {
	inWorld(t, all, func(w *world) {
		parameters := map[string]string{parameterKey + "fstype": "xfs", "tier": "fast"}
		for _, use := range []string{"provisioner", "controller-publish", "controller-expand", "controller-modify", "node-stage", "node-publish", "node-expand"} {
			parameters[parameterKey+use+"-secret-name"], parameters[parameterKey+use+"-secret-namespace"] = use, "storage"
		}
		w.createSecret("storage", "provisioner")
		class := w.createClass(parameters, func(c *storagev1.StorageClass) { c.MountOptions = []string{"noatime"} })
		o := w.options(class, newClaim("c"))
		o.SelectedNode = w.createNode("a", "north")
		p := w.provisioner(sidecar.ProvisionConfig{})
		pv, err := p.Provision(w.Context(), o)
		require.NoError(w, err)
		ref := func(name string) *v1.SecretReference { return &v1.SecretReference{Namespace: "storage", Name: name} }
		require.Equal(w, &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-c", Annotations: map[string]string{
				"volume.kubernetes.io/provisioner-deletion-secret-name":      "provisioner",
				"volume.kubernetes.io/provisioner-deletion-secret-namespace": "storage",
				"volume.kubernetes.io/controller-modify-secret-name":         "controller-modify",
				"volume.kubernetes.io/controller-modify-secret-namespace":    "storage",
			}},
			Spec: v1.PersistentVolumeSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, MountOptions: []string{"noatime"},
				Capacity: v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(1<<30, resource.BinarySI)},
				NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
					MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"north"}}},
				}}}},
				PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
					Driver: driverName, VolumeHandle: "pvc-c", FSType: "xfs", VolumeAttributes: map[string]string{"tier": "fast"},
					ControllerPublishSecretRef: ref("controller-publish"), ControllerExpandSecretRef: ref("controller-expand"),
					NodeStageSecretRef: ref("node-stage"), NodePublishSecretRef: ref("node-publish"), NodeExpandSecretRef: ref("node-expand"),
				}},
			},
		}, pv)

		again, err := p.Provision(w.Context(), o)
		require.NoError(w, err)
		require.Equal(w, pv, again, "Provision is idempotent")
		require.NoError(w, p.Delete(w.Context(), pv))
		require.NoError(w, p.Delete(w.Context(), pv), "so is Delete")
		require.Equal(w, []string{"DeleteVolume volume_id=pvc-c secrets={password}", "DeleteVolume volume_id=pvc-c secrets={password}"}, w.texts(csitest.DeleteVolume))
		require.Empty(w, w.driver.Violations())
	})
}

// TestReadOnlyVolumes: a new volume that is only read is a read-only volume if the configuration says so.
func TestReadOnlyVolumes(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.createNode("a", "north")
		class := w.createClass(nil, nil)
		for mode, readOnly := range map[v1.PersistentVolumeAccessMode]bool{v1.ReadOnlyMany: true, v1.ReadWriteOnce: false} {
			for _, config := range []sidecar.ProvisionConfig{{}, {ReadOnlyVolumes: true}} {
				claim := newClaim("c")
				claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{mode}
				pv, err := w.provisioner(config).Provision(w.Context(), w.options(class, claim))
				require.NoError(w, err)
				require.Equal(w, readOnly && config.ReadOnlyVolumes, pv.Spec.CSI.ReadOnly)
				require.NoError(w, w.provisioner(config).Delete(w.Context(), pv))
			}
		}
	})
}

// TestReadOnlyCopy: a copy that is only read is a read-only volume.
func TestReadOnlyCopy(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.createBound("source", "1Gi", nil)
		claim := newClaim("c")
		fromClaim("source")(claim)
		claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
		pv, err := w.provisioner(sidecar.ProvisionConfig{}).Provision(w.Context(), w.options(w.createClass(nil, nil), claim))
		require.NoError(w, err)
		require.True(w, pv.Spec.CSI.ReadOnly)
	})
}

// TestDeletionSecrets: DeleteVolume has the Secret of the annotations, or of the class. A Secret that was deleted
// does not keep the volume.
func TestDeletionSecrets(t *testing.T) {
	const name, ns = "volume.kubernetes.io/provisioner-deletion-secret-name", "volume.kubernetes.io/provisioner-deletion-secret-namespace"
	for test, c := range map[string]struct {
		annotations map[string]string
		call        string
	}{
		"annotations":    {map[string]string{name: "login", ns: "storage"}, "DeleteVolume volume_id=handle secrets={password}"},
		"deleted secret": {map[string]string{name: "gone", ns: "storage"}, "DeleteVolume volume_id=handle"},
		"no secret":      {map[string]string{name: "", ns: ""}, "DeleteVolume volume_id=handle"},
		"class":          {nil, "DeleteVolume volume_id=handle secrets={password}"},
	} {
		t.Run(test, func(t *testing.T) {
			inWorld(t, all, func(w *world) {
				w.createSecret("storage", "login")
				w.createSecret(namespace, "login")
				w.createClass(map[string]string{parameterKey + "provisioner-secret-name": "login", parameterKey + "provisioner-secret-namespace": "${pvc.namespace}"}, nil)
				pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: c.annotations}}
				pv.Spec.StorageClassName, pv.Spec.ClaimRef = "class", &v1.ObjectReference{Namespace: namespace, Name: "c"}
				pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "handle"}
				require.NoError(w, w.provisioner(sidecar.ProvisionConfig{}).Delete(w.Context(), pv))
				require.Equal(w, []string{c.call}, w.texts(csitest.DeleteVolume))

				require.NoError(w, w.cluster.StorageClasses().Delete(w.Context(), "class", metav1.DeleteOptions{}))
				w.createClass(map[string]string{parameterKey + "secret-name": "login", parameterKey + "secret-namespace": "storage"}, func(c *storagev1.StorageClass) { c.Provisioner = "other.example.com" })
				pv.Annotations = nil
				w.driver.ResetCalls()
				require.NoError(w, w.provisioner(sidecar.ProvisionConfig{}).Delete(w.Context(), pv))
				require.Equal(w, []string{"DeleteVolume volume_id=handle"}, w.texts(csitest.DeleteVolume), "the class is one of another driver")

				pv.Spec.CSI.Driver = "other.example.com"
				require.ErrorAs(w, w.provisioner(sidecar.ProvisionConfig{}).Delete(w.Context(), pv), new(*volume.IgnoredError))
			})
		})
	}
}

// TestCodesOfCreateVolume: each code of CreateVolume has the outcome that package provision acts on.
func TestCodesOfCreateVolume(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, onNode := range []bool{false, true} {
			inWorld(t, all, func(w *world) {
				o := w.options(w.createClass(nil, nil), newClaim("c"))
				if onNode {
					o.SelectedNode = w.createNode("a", "north")
				}
				w.driver.Inject(csitest.Fault{Method: csitest.CreateVolume, Code: code, Message: "why"})
				_, err := w.provisioner(sidecar.ProvisionConfig{}).Provision(w.Context(), o)
				kind := volume.Final
				switch code {
				case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
					kind = volume.Uncertain
				case codes.ResourceExhausted:
					if !onNode {
						kind = volume.Uncertain
					}
				case codes.AlreadyExists:
					kind = volume.Transient
				}
				require.Equal(w, kind, volume.KindOf(err), "%v", err)
				require.Equal(w, code == codes.InvalidArgument || code == codes.OutOfRange, errors.Is(err, volume.ErrInfeasible), "%v", err)
				require.Equal(w, code == codes.ResourceExhausted && onNode, errors.Is(err, volume.ErrReschedule), "%v", err)
				require.ErrorContains(w, err, "why")
			})
		}
	}
}

// TestCodesOfDeleteVolume: after an error the volume is deleted later.
func TestCodesOfDeleteVolume(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		inWorld(t, all, func(w *world) {
			pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
			pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "handle"}
			w.driver.Inject(csitest.Fault{Method: csitest.DeleteVolume, Code: code})
			err := w.provisioner(sidecar.ProvisionConfig{}).Delete(w.Context(), pv)
			require.Error(w, err)
			require.False(w, errors.As(err, new(*volume.IgnoredError)))
			require.Equal(w, code == codes.FailedPrecondition, volume.KindOf(err) == volume.Transient, "%v", err)
		})
	}
}

// TestLyingDriver: answers against the specification neither lose a volume nor store one that the claim cannot have.
func TestLyingDriver(t *testing.T) {
	lie := func(change func(*csipb.Volume)) csitest.Fault {
		return csitest.Fault{Method: csitest.CreateVolume, Answer: func(answer proto.Message) {
			change(answer.(*csipb.CreateVolumeResponse).Volume)
		}}
	}
	inWorld(t, all, func(w *world) {
		w.createBound("source", "1Gi", nil)
		claim := newClaim("c")
		fromClaim("source")(claim)
		o, p := w.options(w.createClass(nil, nil), claim), w.provisioner(sidecar.ProvisionConfig{})
		create := func(fault csitest.Fault) (*v1.PersistentVolume, error) {
			w.driver.ClearFaults()
			w.driver.Inject(fault)
			return p.Provision(w.Context(), o)
		}
		_, err := create(lie(func(v *csipb.Volume) { v.VolumeId = "" }))
		require.Equal(w, volume.Uncertain, volume.KindOf(err), "%v", err)

		pv, err := create(lie(func(v *csipb.Volume) { v.ContentSource = nil }))
		require.ErrorIs(w, err, volume.ErrInfeasible)
		require.ErrorAs(w, err, new(*provision.RefusalError))
		require.Equal(w, "pvc-c", pv.Spec.CSI.VolumeHandle)
		require.Empty(w, w.texts(csitest.DeleteVolume), "the controller deletes the empty volume")

		pv, err = create(lie(func(v *csipb.Volume) { v.CapacityBytes = 0 }))
		require.NoError(w, err)
		require.Equal(w, "1Gi", pv.Spec.Capacity.Storage().String(), "0 is not known")

		pv, err = create(lie(func(v *csipb.Volume) { v.AccessibleTopology = []*csipb.Topology{{}, nil} }))
		require.NoError(w, err)
		require.Nil(w, pv.Spec.NodeAffinity)
	})
}

// TestUnsentCall: a call that has not left says nothing about an earlier one.
func TestUnsentCall(t *testing.T) {
	inWorld(t, all, func(w *world) {
		o := w.options(w.createClass(nil, nil), newClaim("c"))
		p := w.provisioner(sidecar.ProvisionConfig{})
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		_, err := p.Provision(ctx, o)
		require.Equal(w, volume.Transient, volume.KindOf(err), "%v", err)
		require.Empty(w, w.texts(csitest.CreateVolume))
	})
}

// TestNewRegistration: a node on which the driver has registered a moment ago has its topology, before the caches
// show it.
func TestNewRegistration(t *testing.T) {
	inWorld(t, all, func(w *world) {
		late := w.server.Connect("late")
		csiNodes, nodes := api.NewCache(late.CSINodes(), api.CacheConfig{}), api.NewCache(late.Nodes(), api.CacheConfig{})
		node := create(w, w.cluster.Nodes(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"zone": "north"}}})
		csiNode := create(w, w.cluster.CSINodes(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		w.start(csiNodes.Run)
		w.start(nodes.Run)
		w.settle()
		release := w.server.HoldEvents("late")
		defer release()
		csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driverName, NodeID: "id", TopologyKeys: []string{"zone"}}}
		_, err := w.cluster.CSINodes().Update(w.Context(), csiNode, metav1.UpdateOptions{})
		require.NoError(w, err)
		p, err := sidecar.NewProvisioner(w.open(), sidecar.ProvisionerConfig{Cluster: w.cluster, CSINodes: csiNodes, Nodes: nodes})
		require.NoError(w, err)
		o := w.options(w.createClass(nil, nil), newClaim("c"))
		o.SelectedNode = node
		_, err = p.Provision(w.Context(), o)
		require.NoError(w, err)
		require.Equal(w, []string{createWriter + " accessibility_requirements={requisite=[{segments={zone=north}}] preferred=[{segments={zone=north}}]}"}, w.texts(csitest.CreateVolume))
	})
}

// TestNoProvisioner: a driver that creates no volumes has no provisioner.
func TestNoProvisioner(t *testing.T) {
	inWorld(t, without(all, csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME), func(w *world) {
		_, err := sidecar.NewProvisioner(w.open(), sidecar.ProvisionerConfig{Cluster: w.cluster})
		require.ErrorIs(w, err, volume.ErrNotSupported)
	})
	inWorld(t, all, func(w *world) {
		_, err := sidecar.NewProvisioner(w.open(), sidecar.ProvisionerConfig{Cluster: w.cluster})
		require.ErrorContains(w, err, "the driver has topologies")
		_, err = sidecar.NewProvisioner(w.open(), sidecar.ProvisionerConfig{})
		require.ErrorContains(w, err, "Cluster")
	})
}
