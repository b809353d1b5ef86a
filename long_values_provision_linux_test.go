package volumekit_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A provisioningPlugin provisions and deletes.
type provisioningPlugin interface {
	volume.ProvisionableVolumePlugin
	volume.DeletableVolumePlugin
}

// addProvisioners adds the calls of plugins that provision.
func addProvisioners(t *testing.T, calls map[string]func(context.Context) error, long string) {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	m, data := mounttest.NewFake(mount.Config{}), t.TempDir()
	exports := nfs.NewProvisioning(nfs.ProvisioningConfig{Config: nfs.Config{Mounter: m}, Provisioner: "p", Server: "s", Path: "/", Dir: data})
	directories := local.NewProvisioning(local.ProvisioningConfig{Config: local.Config{Mounter: m}, Provisioner: "p", ClaimRoots: []string{data}})
	for _, plugin := range []volume.VolumePlugin{exports, directories} {
		require.NoError(t, plugin.Init(t.Context(), host))
	}
	addProvisioner(calls, exports, long, "nfs.provisioner.Provision ", "nfs.deleter.Delete ")
	addProvisioner(calls, directories, long, "local.claimProvisioner.Provision ", "local.claimDeleter.Delete ")
}

func addProvisioner(calls map[string]func(context.Context) error, plugin provisioningPlugin, long, provision, remove string) {
	for what, options := range optionsOf(long) {
		calls[provision+what] = func(ctx context.Context) error {
			p, err := plugin.NewProvisioner(options)
			if err == nil {
				_, err = p.Provision(ctx)
			}
			return err
		}
	}
	for what, pv := range volumesOf(long) {
		calls[remove+what] = func(ctx context.Context) error {
			d, err := plugin.NewDeleter(volume.NewSpecFromPersistentVolume(pv, false))
			if err == nil {
				err = d.Delete(ctx)
			}
			return err
		}
	}
}

// optionsOf returns requests that have a long text in one field.
func optionsOf(long string) map[string]volume.VolumeOptions {
	all := map[string]volume.VolumeOptions{}
	vary := func(what string, change func(*volume.VolumeOptions)) {
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", Annotations: map[string]string{"a": long}}}
		claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Ki")}
		o := volume.VolumeOptions{PVName: "pv", PVC: claim, StorageClass: storagev1.StorageClass{Provisioner: "p", Parameters: map[string]string{}}}
		change(&o)
		all[what] = o
	}
	vary("volume", func(o *volume.VolumeOptions) { o.PVName = long })
	vary("claim", func(o *volume.VolumeOptions) { o.PVC.Name = long })
	vary("namespace", func(o *volume.VolumeOptions) { o.PVC.Namespace = long })
	vary("class", func(o *volume.VolumeOptions) { o.StorageClass.Name, o.StorageClass.Provisioner = long, long })
	vary("option", func(o *volume.VolumeOptions) { o.StorageClass.MountOptions = []string{long} })
	vary("parameter", func(o *volume.VolumeOptions) { o.StorageClass.Parameters[long] = "x" })
	for _, name := range []string{"pathPattern", "onDelete", "archiveOnDelete", "mode", "uid", "gid", "root", "quota"} {
		vary(name, func(o *volume.VolumeOptions) { o.StorageClass.Parameters[name] = long })
	}
	vary("longest pattern", func(o *volume.VolumeOptions) { o.StorageClass.Parameters["pathPattern"] = long[:900] })
	vary("annotation", func(o *volume.VolumeOptions) {
		o.StorageClass.Parameters["pathPattern"] = "${.PVC.annotations.a}"
	})
	vary("variable", func(o *volume.VolumeOptions) {
		o.StorageClass.Parameters["pathPattern"] = "${.PVC.labels." + long + "}"
	})
	vary("source", func(o *volume.VolumeOptions) {
		o.PVC.Spec.DataSource = &v1.TypedLocalObjectReference{Kind: long, Name: long}
	})
	vary("access mode", func(o *volume.VolumeOptions) {
		o.PVC.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.PersistentVolumeAccessMode(long)}
	})
	vary("selector", func(o *volume.VolumeOptions) {
		o.PVC.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{long: long}}
	})
	vary("attributes", func(o *volume.VolumeOptions) { o.VolumeAttributesClass.Name = long })
	return all
}

// volumesOf returns provisioned volumes that have a long text in one field.
func volumesOf(long string) map[string]*v1.PersistentVolume {
	all := map[string]*v1.PersistentVolume{}
	vary := func(what string, source v1.PersistentVolumeSource, change func(*v1.PersistentVolume)) {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "p"}}}
		pv.Spec.PersistentVolumeSource = source
		change(pv)
		all[what] = pv
	}
	for kind, sourceAt := range map[string]func(path string) v1.PersistentVolumeSource{
		"nfs": func(path string) v1.PersistentVolumeSource {
			return v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: path}}
		},
		"local": func(path string) v1.PersistentVolumeSource {
			return v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}
		},
	} {
		vary(kind+" volume", sourceAt("/pv"), func(pv *v1.PersistentVolume) { pv.Name = long })
		vary(kind+" provisioner", sourceAt("/pv"), func(pv *v1.PersistentVolume) { pv.Annotations["pv.kubernetes.io/provisioned-by"] = long })
		vary(kind+" end", sourceAt("/pv"), func(pv *v1.PersistentVolume) { pv.Annotations[nfs.OnDeleteAnnotation] = long })
		vary(kind+" path", sourceAt("/"+long), func(*v1.PersistentVolume) {})
		vary(kind+" longest path", sourceAt("/"+long[:900]), func(*v1.PersistentVolume) {})
	}
	return all
}
