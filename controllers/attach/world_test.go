package attach_test

import (
	"context"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	namespace  = "default"
	identity   = "attacher"
	driver     = "driver.example.com"
	pluginName = "example.com/disk"
	managed    = "volumes.kubernetes.io/controller-managed-attach-detach"
)

// A diskSpec describes a volume of a test.
type diskSpec struct {
	name     string
	isShared bool
	isPlugin bool
}

// id returns the unique name of the volume.
func (d diskSpec) id() v1.UniqueVolumeName {
	if d.isPlugin {
		return util.GetUniqueVolumeName(pluginName, d.name)
	}
	return v1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + d.name)
}

func (d diskSpec) modes() []v1.PersistentVolumeAccessMode {
	if d.isShared {
		return []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	}
	return []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
}

// object returns the persistent volume, bound to a claim of the same name.
func (d diskSpec) object(claim types.UID) *v1.PersistentVolume {
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: d.name},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: d.modes(), Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef: &v1.ObjectReference{Namespace: namespace, Name: d.name, UID: claim},
		},
	}
	if d.isPlugin {
		pv.Spec.NFS = &v1.NFSVolumeSource{Server: "server", Path: "/" + d.name}
	} else {
		pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: d.name}
	}
	return pv
}

// createPair creates a volume and a claim that are bound to each other.
func createPair(ctx context.Context, cluster api.Cluster, d diskSpec) error {
	class := ""
	claim, err := cluster.PersistentVolumeClaims(namespace).Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: d.name},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: d.modes(), VolumeName: d.name,
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := cluster.PersistentVolumes().Create(ctx, d.object(claim.UID), metav1.CreateOptions{}); err != nil {
		return err
	}
	claim.Status.Phase = v1.ClaimBound
	_, err = cluster.PersistentVolumeClaims(namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

// newNode returns a node whose volumes a controller attaches.
func newNode(name string, ready v1.ConditionStatus) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{managed: "true"}},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{readyCondition(ready)}},
	}
}

func readyCondition(status v1.ConditionStatus) v1.NodeCondition {
	return v1.NodeCondition{Type: v1.NodeReady, Status: status, Reason: "Reported", LastTransitionTime: metav1.NewTime(time.Now())}
}

// newPod returns a pod that uses a claim on a node.
func newPod(name, node, claim string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1.PodSpec{
			NodeName: node, Containers: []v1.Container{{Name: "main", Image: "image"}},
			Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
}

// A diskPlugin is a volume.AttachableVolumePlugin whose calls a test defines.
type diskPlugin struct {
	volume.VolumePlugin              // nil: the controller calls no other method
	canAttach           func() error // nil: the volume has to be attached
	attach              func(ctx context.Context, name string, node types.NodeName) (string, error)
	detach              func(ctx context.Context, name string, node types.NodeName) error
}

func (*diskPlugin) Init(context.Context, volume.VolumeHost) error { return nil }
func (*diskPlugin) GetPluginName() string                         { return pluginName }
func (*diskPlugin) CanSupport(spec *volume.Spec) bool             { return nfsOf(spec) != nil }

func nfsOf(spec *volume.Spec) *v1.NFSVolumeSource {
	if spec.PersistentVolume != nil {
		return spec.PersistentVolume.Spec.NFS
	}
	return spec.Volume.NFS
}

func (*diskPlugin) GetVolumeName(spec *volume.Spec) (string, error) {
	return nfsOf(spec).Path[1:], nil
}

func (p *diskPlugin) CanAttach(context.Context, *volume.Spec) (bool, error) {
	if p.canAttach == nil {
		return true, nil
	}
	err := p.canAttach()
	return err == nil, err
}

func (p *diskPlugin) NewAttacher() (volume.Attacher, error) { return diskAttacher{p}, nil }
func (p *diskPlugin) NewDetacher() (volume.Detacher, error) { return diskAttacher{p}, nil }

type diskAttacher struct{ plugin *diskPlugin }

func (a diskAttacher) Attach(ctx context.Context, spec *volume.Spec, node types.NodeName) (string, error) {
	return a.plugin.attach(ctx, nfsOf(spec).Path[1:], node)
}

func (a diskAttacher) Detach(ctx context.Context, req volume.DetachRequest) error {
	return a.plugin.detach(ctx, req.VolumeName, req.Node)
}

func (diskAttacher) VolumesAreAttached(context.Context, []*volume.Spec, types.NodeName) (map[*volume.Spec]bool, error) {
	return nil, volume.ErrNotSupported
}

func (diskAttacher) WaitForAttach(context.Context, *volume.Spec, string, *v1.Pod) (string, error) {
	return "", volume.ErrNotSupported
}

// manager returns a plugin manager with the plugin.
func (p *diskPlugin) manager(ctx context.Context) (*volume.VolumePluginMgr, error) {
	return volume.NewVolumePluginMgr(ctx, noHost{}, p)
}

// noHost is the host of a plugin that mounts nothing.
type noHost struct{ volume.VolumeHost }

// A csiDriver answers VolumeAttachments as the program beside a driver does.
type csiDriver struct {
	cluster api.Cluster
	attach  func(va *storagev1.VolumeAttachment) error
	detach  func(va *storagev1.VolumeAttachment) error
}

const driverFinalizer = "external-attacher/driver-example-com"

// answer takes one step for each VolumeAttachment that needs one.
func (d *csiDriver) answer(ctx context.Context) error {
	list, err := d.cluster.VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := d.answerOne(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *csiDriver) answerOne(ctx context.Context, va *storagev1.VolumeAttachment) error {
	client := d.cluster.VolumeAttachments()
	switch {
	case va.DeletionTimestamp != nil:
		if err := d.detach(va); err != nil {
			va.Status.DetachError = &storagev1.VolumeError{Time: metav1.NewTime(time.Now()), Message: err.Error()}
			_, err = client.UpdateStatus(ctx, va, metav1.UpdateOptions{})
			return err
		}
		va.Finalizers = nil
		_, err := client.Update(ctx, va, metav1.UpdateOptions{})
		return err
	case va.Status.Attached:
		return nil
	case len(va.Finalizers) == 0:
		va.Finalizers = []string{driverFinalizer}
		var err error
		if va, err = client.Update(ctx, va, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	va = va.DeepCopy()
	if err := d.attach(va); err != nil {
		va.Status.AttachError = &storagev1.VolumeError{Time: metav1.NewTime(time.Now()), Message: err.Error()}
	} else {
		va.Status.Attached, va.Status.AttachError = true, nil
	}
	_, err := client.UpdateStatus(ctx, va, metav1.UpdateOptions{})
	return err
}
