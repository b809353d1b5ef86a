package nfs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	provisionerName = "example.com/nfs"
	provisionedBy   = "pv.kubernetes.io/provisioned-by"
)

// A provisioning is a plugin that provisions in a directory of this machine, which stands for the
// mounted export /k8s.
type provisioning struct {
	*testing.T
	plugin *nfs.ProvisioningPlugin
	export string
}

func newProvisioning(t *testing.T, changes ...func(*nfs.ProvisioningConfig)) *provisioning {
	t.Helper()
	export, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	config := provisioningConfig(mounttest.NewFake(mount.Config{}), export)
	for _, change := range changes {
		change(&config)
	}
	p := &provisioning{T: t, plugin: nfs.NewProvisioning(config), export: export}
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, p.plugin.Init(t.Context(), host))
	return p
}

func provisioningConfig(m mount.Interface, dir string) nfs.ProvisioningConfig {
	return nfs.ProvisioningConfig{
		Config: nfs.Config{Mounter: m}, Provisioner: provisionerName, Server: server, Path: "/k8s", Dir: dir,
	}
}

// optionsOf returns the options for a claim "ns/data" of a class with these parameters.
func optionsOf(pvName string, parameters map[string]string) volume.VolumeOptions {
	return volume.VolumeOptions{
		PVName: pvName,
		PVC: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"},
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
				Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Ki")}},
			},
		},
		StorageClass: storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "nfs"}, Provisioner: provisionerName, Parameters: parameters,
		},
	}
}

func (p *provisioning) provision(o volume.VolumeOptions) (*v1.PersistentVolume, error) {
	p.Helper()
	provisioner, err := p.plugin.NewProvisioner(o)
	if err != nil {
		return nil, err
	}
	return provisioner.Provision(p.Context())
}

func (p *provisioning) mustProvision(o volume.VolumeOptions) *v1.PersistentVolume {
	p.Helper()
	pv, err := p.provision(o)
	require.NoError(p, err)
	return pv
}

// delete deletes a volume as one that the API server has.
func (p *provisioning) delete(pv *v1.PersistentVolume) error {
	p.Helper()
	pv = pv.DeepCopy()
	pv.UID = "uid"
	return p.deleteUnstored(pv)
}

func (p *provisioning) deleteUnstored(pv *v1.PersistentVolume) error {
	p.Helper()
	deleter, err := p.plugin.NewDeleter(volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return err
	}
	return deleter.Delete(p.Context())
}

// write creates a file in the directory of a volume.
func (p *provisioning) write(pv *v1.PersistentVolume, name string) {
	p.Helper()
	path := filepath.Join(p.dirOf(pv), name)
	require.NoError(p, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(p, os.WriteFile(path, []byte("data"), 0o600))
}

func (p *provisioning) dirOf(pv *v1.PersistentVolume) string {
	p.Helper()
	rel, ok := strings.CutPrefix(pv.Spec.NFS.Path, "/k8s/")
	require.True(p, ok, pv.Spec.NFS.Path)
	return filepath.Join(p.export, rel)
}

// requireFiles verifies the paths in the export, apart from the records of owners.
func (p *provisioning) requireFiles(want ...string) {
	p.Helper()
	require.ElementsMatch(p, want, filesBelow(p, p.export))
}

func filesBelow(t *provisioning, dir string) []string {
	t.Helper()
	found := []string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path != dir {
			if entry.Name() == ".volumekit" {
				return fs.SkipDir
			}
			found = append(found, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	return found
}

// TestContractFakeProvision is the contract with a fake kernel: the volumes are mounted by it, their
// directories are real.
func TestContractFakeProvision(t *testing.T) {
	t.Setenv("TMPDIR", testbed.Memory())
	for name, parameters := range map[string]map[string]string{
		"archived": {}, "deleted": {"onDelete": "delete"}, "retained": {"onDelete": "retain"},
		"pattern": {"pathPattern": "${.PVC.namespace}/${.PVC.name}"},
	} {
		t.Run(name, func(t *testing.T) {
			export, volumes := t.TempDir(), 0
			config := contractConfig(nfs.Config{}, func(readOnly bool) *volume.Spec {
				volumes++
				return pv(fmt.Sprintf("/export/%d", volumes), readOnly)
			})
			config.New = func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
				return nfs.NewProvisioning(provisioningConfig(m, export))
			}
			config.Claim = func(*testing.T) volume.VolumeOptions {
				volumes++
				o := optionsOf(fmt.Sprintf("pvc-%d", volumes), parameters)
				o.PVC.Namespace = fmt.Sprintf("ns-%d", volumes)
				return o
			}
			config.Infeasible = map[string]volume.VolumeOptions{}
			for reason, bad := range badOptions() {
				config.Infeasible[reason] = bad.options
			}
			config.NoMetrics = true
			volumetest.TestPlugin(t, config)
		})
	}
}

// A badOption is a request that is refused with an error that contains the field and the value.
type badOption struct {
	options volume.VolumeOptions
	names   []string
}

func badOptions() map[string]badOption {
	all := map[string]badOption{}
	for reason, bad := range map[string]struct {
		parameters map[string]string
		names      []string
	}{
		"unknown parameter": {map[string]string{"server": "evil"}, []string{"parameters[server]", "evil"}},
		"onDelete":          {map[string]string{"onDelete": "destroy"}, []string{"parameters[onDelete]", "destroy"}},
		"archiveOnDelete":   {map[string]string{"archiveOnDelete": "maybe"}, []string{"parameters[archiveOnDelete]", "maybe"}},
		"mode":              {map[string]string{"mode": "0999"}, []string{"parameters[mode]", "0999"}},
		"setuid mode":       {map[string]string{"mode": "4777"}, []string{"parameters[mode]", "4777"}},
		"uid":               {map[string]string{"uid": "-1"}, []string{"parameters[uid]", "-1"}},
		"gid":               {map[string]string{"gid": "4294967295"}, []string{"parameters[gid]", "4294967295"}},
		"dot dot":           {map[string]string{"pathPattern": "a/../../b"}, []string{"parameters[pathPattern]", ".."}},
		"split dot dot":     {map[string]string{"pathPattern": ".${.PVC.labels.dot}"}, []string{"parameters[pathPattern]", ".."}},
		"NUL":               {map[string]string{"pathPattern": "a\x00b"}, []string{"parameters[pathPattern]", `a\x00b`}},
		"4096 bytes":        {map[string]string{"pathPattern": strings.Repeat("x/", 2048)}, []string{"parameters[pathPattern]", "x/x"}},
		"a long component":  {map[string]string{"pathPattern": strings.Repeat("x", 256)}, []string{"parameters[pathPattern]", "xxx"}},
		"the export itself": {map[string]string{"pathPattern": "//./"}, []string{"parameters[pathPattern]", `"."`}},
		"slashes":           {map[string]string{"pathPattern": "//"}, []string{"parameters[pathPattern]", "//"}},
		"open variable":     {map[string]string{"pathPattern": "${.PVC.name"}, []string{"parameters[pathPattern]", "${.PVC.name"}},
		"unknown variable":  {map[string]string{"pathPattern": "${.PVC.uid}"}, []string{"parameters[pathPattern]", "${.PVC.uid}"}},
		"missing label":     {map[string]string{"pathPattern": "a/${.PVC.labels.none}"}, []string{"claim.metadata.labels[none]"}},
		"adopt":             {map[string]string{"adopt": "maybe"}, []string{"parameters[adopt]", "maybe"}},
		"adopt and archive": {map[string]string{"adopt": "true", "pathPattern": "a"}, []string{"parameters[adopt]", "onDelete retain"}},
		"adopt, no pattern": {map[string]string{"adopt": "true", "onDelete": "retain"}, []string{"parameters[adopt]", "requires a pathPattern"}},
		"overcommit":        {map[string]string{"overcommit": "maybe"}, []string{"parameters[overcommit]", "maybe"}},
		"archive":           {map[string]string{"pathPattern": "archived-${.PVC.name}"}, []string{"parameters[pathPattern]", "archived-data"}},
		"reserved":          {map[string]string{"pathPattern": ".volumekit/a"}, []string{"parameters[pathPattern]", ".volumekit"}},
	} {
		o := optionsOf("pvc-bad", bad.parameters)
		o.PVC.Labels = map[string]string{"dot": "."}
		if reason == "split dot dot" {
			o.PVC.Labels["dot"] = "x/.."
			bad.names = []string{"claim.metadata.labels[dot]", "x/.."}
		}
		all[reason] = badOption{o, bad.names}
	}
	size := func(text string) volume.VolumeOptions {
		o := optionsOf("pvc-bad", nil)
		o.PVC.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse(text)
		return o
	}
	all["0 bytes"] = badOption{size("0"), []string{"claim.spec.resources.requests[storage]", `"0"`}}
	all["hostile size"] = badOption{size("1e99999999"), []string{"claim.spec.resources.requests[storage]", "1e99999999"}}
	all["7Ei"] = badOption{size("7Ei"), []string{"claim.spec.resources.requests[storage]", "7Ei"}}
	selector := optionsOf("pvc-bad", nil)
	selector.PVC.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	all["selector"] = badOption{selector, []string{"claim.spec.selector", "a=b"}}
	source := optionsOf("pvc-bad", nil)
	source.PVC.Spec.DataSource = &v1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "s"}
	all["data source"] = badOption{source, []string{"claim.spec.dataSource", "VolumeSnapshot"}}
	mountOption := optionsOf("pvc-bad", nil)
	mountOption.StorageClass.MountOptions = []string{"hard", "bind"}
	all["mount option"] = badOption{mountOption, []string{"storageClass.mountOptions[1]", "bind"}}
	return all
}

// TestProvisionRefused: an invalid request is infeasible, names field and value, and creates nothing.
func TestProvisionRefused(t *testing.T) {
	for reason, bad := range badOptions() {
		t.Run(reason, func(t *testing.T) {
			p := newProvisioning(t)
			_, err := p.provision(bad.options)
			require.ErrorIs(t, err, volume.ErrInfeasible)
			require.Equal(t, volume.Final, volume.KindOf(err))
			var named *field.Error
			require.ErrorAs(t, err, &named)
			for _, name := range bad.names {
				require.ErrorContains(t, err, name)
			}
			require.Less(t, len(err.Error()), 700)
			entries, err := os.ReadDir(p.export)
			require.NoError(t, err)
			require.Empty(t, entries)
		})
	}
}

// TestProvisionDescribes checks the directory and the volume of each kind of class.
func TestProvisionDescribes(t *testing.T) {
	uid, gid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	for name, test := range map[string]struct {
		parameters map[string]string
		dir        string
		mode       uint32
		onDelete   string
	}{
		"default":    {nil, "ns-data-pvc-1", 0o777, "archive"},
		"mode":       {map[string]string{"mode": "2770", "uid": uid, "gid": gid}, "ns-data-pvc-1", 0o2770, "archive"},
		"pattern":    {map[string]string{"pathPattern": "/${.PVC.namespace}//x-${.PVC.annotations.nfs.io/storage-path}/${.PVC.labels.l}/"}, "ns/x-there/label", 0o777, "archive"},
		"not kept":   {map[string]string{"archiveOnDelete": "false"}, "ns-data-pvc-1", 0o777, "delete"},
		"delete":     {map[string]string{"onDelete": "delete", "archiveOnDelete": "true"}, "ns-data-pvc-1", 0o777, "delete"},
		"retain":     {map[string]string{"onDelete": "retain", "archiveOnDelete": "false"}, "ns-data-pvc-1", 0o777, "retain"},
		"no pattern": {map[string]string{"pathPattern": "", "onDelete": ""}, "ns-data-pvc-1", 0o777, "archive"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvisioning(t)
			o := optionsOf("pvc-1", test.parameters)
			o.PVC.Labels = map[string]string{"l": "label"}
			o.PVC.Annotations = map[string]string{"nfs.io/storage-path": "there"}
			o.StorageClass.MountOptions = []string{"hard", "nfsvers=4.1"}
			for range 2 {
				pv := p.mustProvision(o)
				require.Equal(t, &v1.NFSVolumeSource{Server: server, Path: "/k8s/" + test.dir}, pv.Spec.NFS)
				require.Equal(t, test.onDelete, pv.Annotations[nfs.OnDeleteAnnotation])
				require.Equal(t, []string{"hard", "nfsvers=4.1"}, pv.Spec.MountOptions)
				var is syscall.Stat_t
				require.NoError(t, syscall.Stat(filepath.Join(p.export, test.dir), &is))
				require.Equal(t, test.mode, is.Mode&0o7777)
			}
		})
	}
}

// TestProvisionLongNames: a directory of long names is shortened, and so is the name of its archive.
func TestProvisionLongNames(t *testing.T) {
	p := newProvisioning(t)
	o := optionsOf("pvc-0b54a1a6-9f5c-4a6b-8b0c-0a2b8f1c2d3e", nil)
	o.PVC.Namespace, o.PVC.Name = strings.Repeat("n", 63), strings.Repeat("c", 253)
	pv := p.mustProvision(o)
	require.True(t, strings.HasSuffix(pv.Spec.NFS.Path, "c-"+o.PVName))
	require.NoError(t, p.delete(pv))
	p.requireFiles("archived-" + filepath.Base(pv.Spec.NFS.Path))

	o.PVName = strings.Repeat("v", 255)
	_, err := p.provision(o)
	require.ErrorIs(t, err, volume.ErrInfeasible)
	require.ErrorContains(t, err, "claim.metadata.name")
}

// TestProvisionTenantNames: no value of a claim reaches a path outside the directory that the pattern
// gives it. The control is a value that is one name.
func TestProvisionTenantNames(t *testing.T) {
	for name, value := range map[string]string{
		"control": "name", "parent": "..", "dot": ".", "up": "../../outside", "absolute": "/outside",
		"slash": "other/volume", "NUL": "a\x00b", "newline": "a\nb", "empty": "", "long": strings.Repeat("x", 4096),
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvisioning(t)
			before := p.outside()
			o := optionsOf("pvc-1", map[string]string{"pathPattern": "tenants/${.PVC.annotations.path}"})
			o.PVC.Annotations = map[string]string{"path": value}
			pv, err := p.provision(o)
			if name == "control" {
				require.NoError(t, err)
				require.DirExists(t, p.export+"/tenants/name")
				require.NoError(t, p.delete(pv))
			} else {
				require.ErrorIs(t, err, volume.ErrInfeasible)
				require.ErrorContains(t, err, "claim.metadata.annotations[path]")
				p.requireFiles()
			}
			require.Equal(t, before, p.outside())
		})
	}
	t.Run("archives", func(t *testing.T) {
		p := newProvisioning(t)
		o := optionsOf("pvc-1", map[string]string{"pathPattern": "${.PVC.annotations.path}", "onDelete": "retain"})
		for _, value := range []string{"archived-ns-data-pvc-0", ".volumekit"} {
			o.PVC.Annotations = map[string]string{"path": value}
			_, err := p.provision(o)
			require.ErrorIs(t, err, volume.ErrInfeasible, value)
		}
	})
}

// outside returns the entries beside the export.
func (p *provisioning) outside() (names []string) {
	p.Helper()
	entries, err := os.ReadDir(filepath.Dir(p.export))
	require.NoError(p, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestProvisionPlantedLinks: a symbolic link in the export, at each component of a path, leads no
// call outside. The control is a directory in place of the link.
func TestProvisionPlantedLinks(t *testing.T) {
	for _, onDelete := range []string{"archive", "delete"} {
		for _, at := range []string{"tenants", "tenants/ns", "tenants/ns/data", ".volumekit"} {
			for _, planted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%t", onDelete, at, planted), func(t *testing.T) {
					p := newProvisioning(t)
					outside := t.TempDir()
					parameters := map[string]string{"pathPattern": "tenants/${.PVC.namespace}/${.PVC.name}"}
					if onDelete == "delete" {
						parameters["onDelete"] = "delete"
					}
					place := filepath.Join(p.export, at)
					require.NoError(t, os.MkdirAll(filepath.Dir(place), 0o755))
					switch {
					case planted:
						require.NoError(t, os.Symlink(outside, place))
					case at != "tenants/ns/data":
						require.NoError(t, os.Mkdir(place, 0o755))
					}
					pv, err := p.provision(optionsOf("pvc-1", parameters))
					if planted {
						kind := volume.Final
						if at == ".volumekit" {
							kind = volume.Uncertain // an earlier call may have made a directory
						}
						require.Equal(t, kind, volume.KindOf(err), err)
						require.NoError(t, os.Remove(place))
						require.Empty(t, filesBelow(p, outside))
						pv, err = p.provision(optionsOf("pvc-1", parameters))
					}
					require.NoError(t, err)
					p.write(pv, "file")
					if planted {
						p.plantOver(place, outside)
					}
					err = p.delete(pv)
					require.Equal(t, planted, err != nil, err)
					require.Equal(t, planted, len(filesBelow(p, outside)) > 0)
				})
			}
		}
	}
}

// plantOver moves an entry of the export outside, and puts a symbolic link in its place.
func (p *provisioning) plantOver(place, outside string) {
	p.Helper()
	require.NoError(p, os.Rename(place, outside+"/moved"))
	require.NoError(p, os.WriteFile(outside+"/moved/precious", nil, 0o600))
	require.NoError(p, os.Symlink(outside+"/moved", place))
	p.Cleanup(func() {
		_, err := os.Stat(outside + "/moved/precious")
		require.NoError(p, err)
	})
}

// TestProvisionOccupied: a directory by a pattern is one volume's, unless the class retains it.
func TestProvisionOccupied(t *testing.T) {
	shared := map[string]string{"pathPattern": "${.PVC.namespace}"}
	t.Run("owned", func(t *testing.T) {
		p := newProvisioning(t)
		first := p.mustProvision(optionsOf("pvc-1", shared))
		p.write(first, "file")
		_, err := p.provision(optionsOf("pvc-2", shared))
		require.ErrorContains(t, err, `directory "ns" belongs to volume "pvc-1"`)
		require.Equal(t, volume.Final, volume.KindOf(err))
		_, err = p.provision(optionsOf("pvc-2", map[string]string{"pathPattern": "ns/inside"}))
		require.ErrorContains(t, err, `directory "ns" belongs to volume "pvc-1"`)
		_, err = p.provision(optionsOf("pvc-2", map[string]string{"pathPattern": "ns", "onDelete": "retain"}))
		require.ErrorContains(t, err, `directory "ns" belongs to volume "pvc-1"`)
		other := first.DeepCopy()
		other.Name = "pvc-2"
		require.NoError(t, p.delete(other), "the directory of pvc-2 is gone")
		p.requireFiles("ns", "ns/file")
		_, err = p.provision(optionsOf("pvc-2", shared))
		require.ErrorContains(t, err, `directory "ns" belongs to volume "pvc-1"`)
		p.requireRecords(2) // of pvc-1
		require.NoError(t, p.delete(first))
		p.requireFiles("archived-ns-pvc-1", "archived-ns-pvc-1/file")
		p.mustProvision(optionsOf("pvc-2", shared))
	})
	t.Run("foreign", func(t *testing.T) {
		p := newProvisioning(t)
		require.NoError(t, os.Mkdir(p.export+"/ns", 0o755))
		for range 2 {
			_, err := p.provision(optionsOf("pvc-1", shared))
			require.ErrorContains(t, err, "was not created for this volume")
			require.Equal(t, volume.Final, volume.KindOf(err))
		}
		p.requireFiles("ns")
	})
	t.Run("retained", func(t *testing.T) {
		p := newProvisioning(t)
		retained := map[string]string{"pathPattern": "${.PVC.namespace}", "onDelete": "retain"}
		first := p.mustProvision(optionsOf("pvc-1", retained))
		p.write(first, "file")
		require.NoError(t, p.delete(first))
		second := p.mustProvision(optionsOf("pvc-2", retained))
		require.Equal(t, first.Spec.NFS, second.Spec.NFS)
		first.Annotations[nfs.OnDeleteAnnotation] = "delete"
		require.NoError(t, p.delete(first))
		p.requireFiles("ns", "ns/file")
		_, err := p.provision(optionsOf("pvc-3", map[string]string{"pathPattern": "${.PVC.namespace}/"}))
		require.ErrorContains(t, err, `directory "ns" is shared by volumes of another pathPattern`)
		require.Equal(t, volume.Final, volume.KindOf(err))
	})
}

// TestProvisionAdopts: a class with adopt takes the directories of its pattern that exist without a record, as they are.
func TestProvisionAdopts(t *testing.T) {
	parameters := func(pattern, adopt string) map[string]string {
		return map[string]string{"pathPattern": pattern, "onDelete": "retain", "adopt": adopt, "mode": "0770"}
	}
	const pattern = "${.PVC.namespace}/${.PVC.name}"
	modeOf := func(t *testing.T, dir string) os.FileMode {
		info, err := os.Stat(dir)
		require.NoError(t, err)
		return info.Mode().Perm()
	}
	retained := func(t *testing.T) *provisioning {
		p := newProvisioning(t)
		require.NoError(t, os.MkdirAll(p.export+"/ns/data", 0o755))
		require.NoError(t, os.WriteFile(p.export+"/ns/data/file", nil, 0o600))
		require.NoError(t, os.Chmod(p.export+"/ns/data", 0o700))
		return p
	}
	t.Run("adopted", func(t *testing.T) {
		p := retained(t)
		pv := p.mustProvision(optionsOf("pvc-1", parameters(pattern, "true")))
		require.Equal(t, "/k8s/ns/data", pv.Spec.NFS.Path)
		require.Equal(t, os.FileMode(0o700), modeOf(t, p.dirOf(pv)))
		p.mustProvision(optionsOf("pvc-1", parameters(pattern, "true"))) // the call is repeated
		require.Equal(t, os.FileMode(0o700), modeOf(t, p.dirOf(pv)))
		require.NoError(t, p.delete(pv))
		p.requireFiles("ns", "ns/data", "ns/data/file")
		p.mustProvision(optionsOf("pvc-2", parameters(pattern, "false")))
		_, err := p.provision(optionsOf("pvc-3", map[string]string{"pathPattern": pattern}))
		require.ErrorContains(t, err, "is shared by volumes of another pathPattern")
	})
	t.Run("new and empty", func(t *testing.T) {
		p := newProvisioning(t)
		require.NoError(t, os.MkdirAll(p.export+"/ns/data", 0o755))
		o := optionsOf("pvc-1", parameters(pattern, "true"))
		require.Equal(t, os.FileMode(0o770), modeOf(t, p.dirOf(p.mustProvision(o))))
		o.PVName, o.PVC.Name = "pvc-2", "new"
		require.Equal(t, os.FileMode(0o770), modeOf(t, p.dirOf(p.mustProvision(o))))
	})
	t.Run("not adopted", func(t *testing.T) {
		for _, adopt := range []string{"false", "0"} {
			p := retained(t)
			_, err := p.provision(optionsOf("pvc-1", parameters(pattern, adopt)))
			require.ErrorContains(t, err, "was not created for this volume")
			p.requireFiles("ns", "ns/data", "ns/data/file")
		}
	})
	annotated := func(pvName, pattern, path string) volume.VolumeOptions {
		o := optionsOf(pvName, parameters(pattern, "true"))
		o.PVC.Annotations = map[string]string{"path": path}
		return o
	}
	const uuidName = "ns-data-pvc-0b7f2a44-21b9-4b0c-8f3c-9d2b0a6f1c5e"
	for name, test := range map[string]struct {
		make    func(p *provisioning) error
		options volume.VolumeOptions
	}{
		"of a volume": {func(p *provisioning) error { p.mustProvision(optionsOf("pvc-1", nil)); return nil }, annotated("pvc-2", "${.PVC.annotations.path}", "ns-data-pvc-1")},
		"below a volume": {func(p *provisioning) error {
			return os.Mkdir(p.dirOf(p.mustProvision(optionsOf("pvc-1", nil)))+"/data", 0o755)
		}, annotated("pvc-2", "${.PVC.annotations.path}/data", "ns-data-pvc-1")},
		"above a volume": {func(p *provisioning) error {
			p.mustProvision(optionsOf("pvc-1", parameters(pattern, "false")))
			return nil
		}, annotated("pvc-2", "${.PVC.annotations.path}", "ns")},
		"below a directory of a tenant":   {func(p *provisioning) error { return os.MkdirAll(p.export+"/other/data", 0o755) }, annotated("pvc-2", "${.PVC.annotations.path}/data", "other")},
		"the name of a default directory": {func(p *provisioning) error { return os.Mkdir(p.export+"/"+uuidName, 0o755) }, annotated("pvc-2", "${.PVC.annotations.path}", uuidName)},
		"lost+found":                      {func(p *provisioning) error { return os.Mkdir(p.export+"/lost+found", 0o755) }, annotated("pvc-2", "${.PVC.annotations.path}", "lost+found")},
		"a link":                          {func(p *provisioning) error { return os.Symlink("/etc", p.export+"/link") }, annotated("pvc-2", "${.PVC.annotations.path}", "link")},
		"a file":                          {func(p *provisioning) error { return os.WriteFile(p.export+"/file", nil, 0o600) }, annotated("pvc-2", "${.PVC.annotations.path}", "file")},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvisioning(t)
			require.NoError(t, test.make(p))
			before := filesBelow(p, p.export)
			_, err := p.provision(test.options)
			require.Error(t, err)
			require.Equal(t, volume.Final, volume.KindOf(err), err)
			p.requireFiles(before...)
		})
	}
}

// TestProvisionAdoptsNothingElse: no namespace and no pattern of another class leads below the directory of a volume.
func TestProvisionAdoptsNothingElse(t *testing.T) {
	adopting := func(pvName, pattern, namespace, claim string) volume.VolumeOptions {
		o := optionsOf(pvName, map[string]string{"pathPattern": pattern, "onDelete": "retain", "adopt": "true"})
		o.PVC.Namespace, o.PVC.Name = namespace, claim
		return o
	}
	t.Run("a namespace with the name of a directory", func(t *testing.T) {
		const victim = "a-b-pvc-0b7f2a44-21b9-4b0c-8f3c-9d2b0a6f1c5e"
		p := newProvisioning(t)
		require.NoError(t, os.MkdirAll(p.export+"/"+victim+"/data", 0o755))
		for _, claim := range []string{"data", "new"} {
			o := adopting("pvc-1", "${.PVC.namespace}/${.PVC.name}", victim, claim)
			_, err := p.provision(o)
			require.ErrorContains(t, err, "was not created for this volume", claim)
			delete(o.StorageClass.Parameters, "adopt")
			_, err = p.provision(o)
			require.ErrorContains(t, err, "was not created for this volume", claim)
		}
		p.requireFiles(victim, victim+"/data")
	})
	t.Run("a parent that a tenant chooses", func(t *testing.T) {
		p := newProvisioning(t)
		require.NoError(t, os.MkdirAll(p.export+"/prod/data", 0o755))
		p.mustProvision(adopting("pvc-1", "${.PVC.namespace}/${.PVC.name}", "prod", "other"))
		_, err := p.provision(adopting("pvc-2", "${.PVC.name}/${.PVC.namespace}", "data", "prod"))
		require.ErrorContains(t, err, "was not created for this volume")
	})
	t.Run("a file that becomes a directory", func(t *testing.T) {
		p := newProvisioning(t)
		require.NoError(t, os.MkdirAll(p.export+"/ns", 0o755))
		require.NoError(t, os.WriteFile(p.export+"/ns/data", nil, 0o600))
		o := adopting("pvc-1", "${.PVC.namespace}/${.PVC.name}", "ns", "data")
		_, err := p.provision(o)
		require.Equal(t, volume.Final, volume.KindOf(err), err)
		require.NoError(t, os.Remove(p.export+"/ns/data"))
		require.NoError(t, os.Mkdir(p.export+"/ns/data", 0o700))
		delete(o.StorageClass.Parameters, "adopt")
		_, err = p.provision(o)
		require.ErrorContains(t, err, "was not created for this volume")
	})
}

// TestProvisionOvercommits: a class with overcommit accepts more than the export has.
func TestProvisionOvercommits(t *testing.T) {
	p := newProvisioning(t)
	o := optionsOf("pvc-1", map[string]string{"overcommit": "true"})
	o.PVC.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("7Ei")
	pv := p.mustProvision(o)
	size := pv.Spec.Capacity[v1.ResourceStorage]
	require.Equal(t, "7Ei", size.String())
}

// TestProvisionAttacks: no pattern reaches the directory of a volume, or a directory in or above it: a
// default directory, a shared one, or one of nfs-subdir-external-provisioner. The control is a name
// that no directory has.
func TestProvisionAttacks(t *testing.T) {
	annotated := func(pattern, onDelete, value string) volume.VolumeOptions {
		o := optionsOf("pvc-evil", map[string]string{"pathPattern": pattern, "onDelete": onDelete, "mode": "0700"})
		o.PVC.Annotations = map[string]string{"path": value}
		return o
	}
	shared := map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}", "onDelete": "retain"}
	for name, victim := range map[string]func(p *provisioning) string{
		"default": func(p *provisioning) string { return p.dirOf(p.mustProvision(optionsOf("pvc-1", nil))) },
		"retained": func(p *provisioning) string {
			return p.dirOf(p.mustProvision(optionsOf("pvc-1", map[string]string{"onDelete": "retain"})))
		},
		"parent": func(p *provisioning) string {
			return filepath.Dir(p.dirOf(p.mustProvision(optionsOf("pvc-1", shared))))
		},
		"shared": func(p *provisioning) string {
			return p.dirOf(p.mustProvision(optionsOf("pvc-1", map[string]string{"pathPattern": "${.PVC.namespace}", "onDelete": "retain"})))
		},
		"other program": func(p *provisioning) string {
			dir := p.export + "/ns-data-pvc-1"
			require.NoError(p, os.Mkdir(dir, 0o777))
			return dir
		},
	} {
		for _, onDelete := range []string{"", "delete", "retain"} {
			for _, pattern := range []string{"${.PVC.annotations.path}", "${.PVC.annotations.path}/data", "${.PVC.annotations.path}/new/data"} {
				if name == "parent" && pattern != "${.PVC.annotations.path}" {
					continue // a parent is for the directories of volumes
				}
				t.Run(fmt.Sprintf("%s/%s/%s", name, onDelete, strings.ReplaceAll(pattern, "/", " ")), func(t *testing.T) {
					p := newProvisioning(t)
					dir := victim(p)
					require.NoError(t, os.MkdirAll(dir+"/data", 0o777))
					require.NoError(t, os.Chmod(dir, 0o711))
					before := filesBelow(p, p.export)
					_, err := p.provision(annotated(pattern, onDelete, filepath.Base(dir)))
					require.Error(t, err)
					require.Equal(t, volume.Final, volume.KindOf(err), err)
					p.requireFiles(before...)
					info, err := os.Stat(dir)
					require.NoError(t, err)
					require.Equal(t, os.FileMode(0o711), info.Mode().Perm())
					p.mustProvision(annotated(pattern, onDelete, "control"))
				})
			}
		}
	}
}

// TestProvisionContinues: a call that follows an interrupted one continues with its directory, also
// if the claim or the class has changed; if these are invalid the directory is removed.
func TestProvisionContinues(t *testing.T) {
	for name, change := range map[string]func(*volume.VolumeOptions){
		"nothing":         func(*volume.VolumeOptions) {},
		"another label":   func(o *volume.VolumeOptions) { o.PVC.Labels["l"] = "second" },
		"another pattern": func(o *volume.VolumeOptions) { o.StorageClass.Parameters["pathPattern"] = "${.PVC.name}" },
		"no pattern":      func(o *volume.VolumeOptions) { o.StorageClass.Parameters["pathPattern"] = "" },
		"another end":     func(o *volume.VolumeOptions) { o.StorageClass.Parameters["onDelete"] = "retain" },
		"a larger size": func(o *volume.VolumeOptions) {
			o.PVC.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("7Ei")
		},
		"no label":    func(o *volume.VolumeOptions) { o.PVC.Labels = nil },
		"a bad class": func(o *volume.VolumeOptions) { o.StorageClass.Parameters["unknown"] = "1" },
		"a bad mode":  func(o *volume.VolumeOptions) { o.StorageClass.Parameters["mode"] = "rwx" },
		"a selector":  func(o *volume.VolumeOptions) { o.PVC.Spec.Selector = &metav1.LabelSelector{} },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvisioning(t)
			options := func() volume.VolumeOptions {
				o := optionsOf("pvc-1", map[string]string{"pathPattern": "x/${.PVC.labels.l}"})
				o.PVC.Labels = map[string]string{"l": "first"}
				return o
			}
			changed := options()
			change(&changed)
			first := p.mustProvision(options())
			again, err := p.provision(changed)
			if err == nil {
				require.Equal(t, first.Spec.NFS, again.Spec.NFS)
				p.requireFiles("x", "x/first")
				first.Annotations[nfs.OnDeleteAnnotation] = "delete"
				require.NoError(t, p.delete(first))
				p.requireFiles("x")
				p.requireRecords(1) // of the parent
				return
			}
			require.Contains(t, []string{"no label", "a bad class", "a bad mode", "a selector"}, name, err)
			require.ErrorIs(t, err, volume.ErrInfeasible)
			require.Equal(t, volume.Final, volume.KindOf(err))
			p.requireFiles("x")
			p.requireRecords(1)

			p.write(p.mustProvision(options()), "file")
			_, err = p.provision(changed)
			require.Equal(t, volume.Uncertain, volume.KindOf(err), err)
			p.requireFiles("x", "x/first", "x/first/file")
		})
	}
}

// requireRecords verifies the number of records in the export, apart from the name of the export.
func (p *provisioning) requireRecords(want int) {
	p.Helper()
	entries, err := os.ReadDir(p.export + "/.volumekit")
	require.NoError(p, err)
	entries = slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return entry.Name() == "export" })
	require.Len(p, entries, want)
}

// TestProvisionUncertainRecords: without the records no error is certain, since an earlier call may
// have made a directory.
func TestProvisionUncertainRecords(t *testing.T) {
	p := newProvisioning(t)
	o := optionsOf("pvc-1", map[string]string{"mode": "rwx"})
	require.NoError(t, os.WriteFile(p.export+"/.volumekit", nil, 0o600))
	_, err := p.provision(o)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.ErrorContains(t, err, `"rwx"`)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	require.NoError(t, os.Remove(p.export+"/.volumekit"))
	_, err = p.provision(o)
	require.Equal(t, volume.Final, volume.KindOf(err))
}

// TestProvisionRefusedRecords: a server's refusal before the directory is recorded is final only in the
// first call.
func TestProvisionRefusedRecords(t *testing.T) {
	p := newProvisioning(t)
	options := func(pvName string) volume.VolumeOptions {
		return optionsOf(pvName, map[string]string{"pathPattern": "${.PVC.namespace}/${.PVC.name}"})
	}
	dir := p.dirOf(p.mustProvision(options("pvc-1")))
	sum := sha256.Sum256([]byte("ns/data"))
	require.NoError(t, os.Remove(p.export+"/.volumekit/"+hex.EncodeToString(sum[:])))
	require.NoError(t, os.RemoveAll(filepath.Dir(dir)))
	require.NoError(t, os.WriteFile(filepath.Dir(dir), nil, 0o600))
	for pvName, kind := range map[string]volume.ErrorKind{"pvc-1": volume.Uncertain, "pvc-2": volume.Final} {
		_, err := p.provision(options(pvName))
		require.ErrorIs(t, err, syscall.ENOTDIR)
		require.Equal(t, kind, volume.KindOf(err), err)
	}
	p.requireRecords(2) // of pvc-1 and of the parent
}

// TestProvisionGivenParents: directories that exist above those of volumes are used if no tenant
// chooses them, such as those of nfs-subdir-external-provisioner for a namespace.
func TestProvisionGivenParents(t *testing.T) {
	p := newProvisioning(t)
	require.NoError(t, os.MkdirAll(p.export+"/k8s/ns", 0o755))
	p.mustProvision(optionsOf("pvc-1", map[string]string{"pathPattern": "/k8s//${.PVC.namespace}/${.PVC.name}"}))
	_, err := p.provision(optionsOf("pvc-2", map[string]string{"pathPattern": "k8s/${.PVC.namespace}"}))
	require.ErrorContains(t, err, `directory "k8s/ns" contains directories of other volumes`)
	above := otherProgramVolume("/k8s/k8s/ns")
	require.ErrorContains(t, p.delete(above), `directory "k8s/ns" contains directories of other volumes`)
	p.requireFiles("k8s", "k8s/ns", "k8s/ns/data")
	require.NoError(t, os.Mkdir(p.export+"/ns-data-pvc-3", 0o755)) // an interrupted call of that program
	p.mustProvision(optionsOf("pvc-3", nil))
}

// TestProvisionReverts: if the server refuses an attribute of the directory, the directory goes again.
func TestProvisionReverts(t *testing.T) {
	refused, want := "0", fs.ErrPermission
	if os.Getuid() == 0 { // may set any owner that the user namespace has
		if !mounttest.Namespace(t) {
			return
		}
		refused, want = "1", error(syscall.EINVAL)
	}
	for _, pattern := range []string{"", "a/${.PVC.name}"} {
		p := newProvisioning(t)
		_, err := p.provision(optionsOf("pvc-1", map[string]string{"uid": refused, "pathPattern": pattern}))
		require.ErrorIs(t, err, want)
		require.Equal(t, volume.Final, volume.KindOf(err))
		p.requireFiles()
	}
}

// TestProvisionEndedContext: a call whose context has ended changes nothing, and says so.
func TestProvisionEndedContext(t *testing.T) {
	p := newProvisioning(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	parameters := map[string]string{"pathPattern": "${.PVC.name}"}
	provisioner, err := p.plugin.NewProvisioner(optionsOf("pvc-1", parameters))
	require.NoError(t, err)
	_, err = provisioner.Provision(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, volume.ErrTransient)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	entries, err := os.ReadDir(p.export)
	require.NoError(t, err)
	require.Empty(t, entries)
	deleter, err := p.plugin.NewDeleter(volume.NewSpecFromPersistentVolume(p.mustProvision(optionsOf("pvc-1", parameters)), false))
	require.NoError(t, err)
	require.ErrorIs(t, deleter.Delete(ended), volume.ErrTransient)
	p.requireFiles("data")
}

// TestDeleteEnds: archive, delete and retain, each repeated, and after a volume of the same name.
func TestDeleteEnds(t *testing.T) {
	for name, test := range map[string]struct {
		parameters map[string]string
		left       []string
	}{
		"archive": {nil, []string{"archived-ns-data-pvc-1", "archived-ns-data-pvc-1/a", "archived-ns-data-pvc-1/a/b", "archived-ns-data-pvc-1/lost+found", "archived-ns-data-pvc-1/lost+found/c", "archived-ns-data-pvc-1-2", "archived-ns-data-pvc-1-2/more", "archived-ns-data-pvc-1-3", "archived-ns-data-pvc-1-3/more"}},
		"delete":  {map[string]string{"onDelete": "delete"}, []string{}},
		"retain":  {map[string]string{"onDelete": "retain"}, []string{"ns-data-pvc-1", "ns-data-pvc-1/a", "ns-data-pvc-1/a/b", "ns-data-pvc-1/lost+found", "ns-data-pvc-1/lost+found/c", "ns-data-pvc-1/more"}},
		"pattern": {map[string]string{"pathPattern": "x/${.PVC.name}"}, []string{"x", "archived-data-pvc-1", "archived-data-pvc-1/a", "archived-data-pvc-1/a/b", "archived-data-pvc-1/lost+found", "archived-data-pvc-1/lost+found/c", "archived-data-pvc-1-2", "archived-data-pvc-1-2/more", "archived-data-pvc-1-3", "archived-data-pvc-1-3/more"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvisioning(t)
			pv := p.mustProvision(optionsOf("pvc-1", test.parameters))
			p.write(pv, "a/b")
			p.write(pv, "lost+found/c")
			for range 2 {
				require.NoError(t, p.delete(pv))
			}
			for range 2 {
				p.write(p.mustProvision(optionsOf("pvc-1", test.parameters)), "more")
				require.NoError(t, p.delete(pv))
			}
			p.requireFiles(test.left...)
		})
	}
}

// TestDeleteIsUncertain: once files are deleted an error is uncertain, whatever prevents the rest.
func TestDeleteIsUncertain(t *testing.T) {
	p := newProvisioning(t)
	pv := p.mustProvision(optionsOf("pvc-1", map[string]string{"onDelete": "delete", "pathPattern": "x/${.PVC.name}"}))
	p.write(pv, "a")
	parent := filepath.Join(p.export, "x") // what refuses the removal of the emptied directory
	refused, protect, unprotect := syscall.EACCES, func() error { return os.Chmod(parent, 0o555) }, func() error { return os.Chmod(parent, 0o755) }
	if os.Geteuid() == 0 {
		refused = syscall.EPERM
		protect = func() error { testbed.Protect(t, parent, testbed.Immutable); return nil }
		unprotect = func() error { testbed.Protect(t, parent, 0); return nil }
	}
	require.NoError(t, protect())
	err := p.delete(pv)
	require.NoError(t, unprotect())
	require.ErrorIs(t, err, refused)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	require.NoFileExists(t, filepath.Join(parent, "data/a"))
	require.NoError(t, p.delete(pv))
	p.requireFiles("x")
}

// TestAliases: the directories of volumes from before a move of the export are deleted by its alias, and by nothing else.
func TestAliases(t *testing.T) {
	for name, test := range map[string]struct {
		aliases   []nfs.ExportName
		isIgnored bool
	}{
		"the server has moved": {[]nfs.ExportName{{Server: "other", Path: "/k8s"}, {Server: "old", Path: "/k8s"}}, false},
		"the path has moved":   {[]nfs.ExportName{{Server: server, Path: "/former"}}, false},
		"no alias":             {nil, true},
		"another alias":        {[]nfs.ExportName{{Server: "old", Path: "/other"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvisioning(t, func(c *nfs.ProvisioningConfig) { c.Aliases = test.aliases })
			pv := p.mustProvision(optionsOf("pvc-1", map[string]string{"onDelete": "delete"}))
			p.write(pv, "a")
			if name == "the path has moved" {
				pv.Spec.NFS.Path = "/former/ns-data-pvc-1"
			} else {
				pv.Spec.NFS.Server = "old"
			}
			err := p.delete(pv)
			if test.isIgnored {
				require.ErrorAs(t, err, new(*volume.IgnoredError))
				require.ErrorContains(t, err, "nor below an alias of it")
				p.requireFiles("ns-data-pvc-1", "ns-data-pvc-1/a")
				return
			}
			require.NoError(t, err)
			p.requireFiles()
			require.Equal(t, server, p.mustProvision(optionsOf("pvc-2", nil)).Spec.NFS.Server)
		})
	}
	config := provisioningConfig(mounttest.NewFake(mount.Config{}), "")
	config.Aliases = []nfs.ExportName{{Server: "old", Path: "k8s"}}
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.ErrorContains(t, nfs.NewProvisioning(config).Init(t.Context(), host), "config.aliases[0].path")
}

// TestArchiveContinues: an archive whose directory a call created before it was interrupted is used. A
// file and a link of its name stay.
func TestArchiveContinues(t *testing.T) {
	for name, plant := range map[string]func(p *provisioning, at string){
		"directory": func(p *provisioning, at string) { require.NoError(p, os.Mkdir(at, 0o700)) },
		"file":      func(p *provisioning, at string) { require.NoError(p, os.WriteFile(at, []byte("data"), 0o600)) },
		"link":      func(p *provisioning, at string) { require.NoError(p, os.Symlink("nowhere", at)) },
	} {
		p := newProvisioning(t)
		pv := p.mustProvision(optionsOf("pvc-1", nil))
		p.write(pv, "file")
		archive := "archived-ns-data-pvc-1"
		plant(p, filepath.Join(p.export, archive))
		require.NoError(t, p.delete(pv))
		if name == "directory" {
			p.requireFiles(archive, archive+"/file")
		} else {
			p.requireFiles(archive, archive+"-2", archive+"-2/file")
		}
	}
}

// TestDeleteOfOtherProgram: volumes of nfs-subdir-external-provisioner end as their class requires.
func TestDeleteOfOtherProgram(t *testing.T) {
	const dir = "ns-data-pvc-1"
	for name, test := range map[string]struct {
		class func(context.Context, string) (*storagev1.StorageClass, error)
		left  []string
		err   string
	}{
		"no classes": {nil, []string{"archived-" + dir}, ""},
		"archive":    {classWith(nil), []string{"archived-" + dir}, ""},
		"delete":     {classWith(map[string]string{"archiveOnDelete": "false"}), []string{}, ""},
		"retain":     {classWith(map[string]string{"onDelete": "retain"}), []string{dir}, ""},
		"bad class":  {classWith(map[string]string{"archiveOnDelete": "x"}), []string{dir}, "archiveOnDelete"},
		"class gone": {func(_ context.Context, name string) (*storagev1.StorageClass, error) {
			return nil, apierrors.NewNotFound(storagev1.Resource("storageclasses"), name)
		}, []string{"archived-" + dir}, ""},
		"no class": {func(context.Context, string) (*storagev1.StorageClass, error) { return nil, errors.New("gone") }, []string{dir}, `read class "old": gone`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvisioning(t, func(c *nfs.ProvisioningConfig) { c.Class = test.class })
			require.NoError(t, os.Mkdir(filepath.Join(p.export, dir), 0o777))
			pv := otherProgramVolume("/k8s/" + dir)
			for range 2 {
				err := p.delete(pv)
				if test.err == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, test.err)
				}
			}
			p.requireFiles(test.left...)
		})
	}
}

func classWith(parameters map[string]string) func(context.Context, string) (*storagev1.StorageClass, error) {
	return func(_ context.Context, name string) (*storagev1.StorageClass, error) {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Parameters: parameters}, nil
	}
}

// otherProgramVolume returns a volume as nfs-subdir-external-provisioner stores it.
func otherProgramVolume(path string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Annotations: map[string]string{provisionedBy: provisionerName}},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{NFS: source(server, path, false)}, StorageClassName: "old",
		},
	}
}

// TestDeleteNotOurs: a volume that is not a directory below the export, or not provisioned here, is
// ignored, and its files stay. The control is deleted.
func TestDeleteNotOurs(t *testing.T) {
	p := newProvisioning(t)
	require.NoError(t, os.MkdirAll(p.export+"/dir/inside", 0o755))
	for name, change := range map[string]func(*v1.PersistentVolume){
		"the export":        func(pv *v1.PersistentVolume) { pv.Spec.NFS.Path = "/k8s" },
		"slashes":           func(pv *v1.PersistentVolume) { pv.Spec.NFS.Path = "//k8s//." },
		"beside the export": func(pv *v1.PersistentVolume) { pv.Spec.NFS.Path = "/k8s2/dir" },
		"above the export":  func(pv *v1.PersistentVolume) { pv.Spec.NFS.Path = "/" },
		"another server":    func(pv *v1.PersistentVolume) { pv.Spec.NFS.Server = "other.example.com" },
		"another program":   func(pv *v1.PersistentVolume) { pv.Annotations[provisionedBy] = "other" },
		"by hand":           func(pv *v1.PersistentVolume) { pv.Annotations = nil },
	} {
		pv := otherProgramVolume("/k8s/dir")
		change(pv)
		var ignored *volume.IgnoredError
		require.ErrorAs(t, p.delete(pv), &ignored, name)
		p.requireFiles("dir", "dir/inside")
	}
	for _, path := range []string{"/k8s/../k8s/dir", "/k8s/.volumekit"} {
		var named *field.Error
		require.ErrorAs(t, p.delete(otherProgramVolume(path)), &named, path)
	}
	annotated := otherProgramVolume("/k8s/dir")
	annotated.Annotations[nfs.OnDeleteAnnotation] = "burn"
	require.ErrorContains(t, p.delete(annotated), `"burn"`)
	p.requireFiles("dir", "dir/inside")
	require.NoError(t, p.delete(otherProgramVolume("/k8s/dir"))) // the control
	p.requireFiles("archived-dir-pvc-1", "archived-dir-pvc-1/inside")
}

// TestProvisioningConfig: an invalid configuration is refused by Init.
func TestProvisioningConfig(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	for name, change := range map[string]func(*nfs.ProvisioningConfig){
		"config.provisioner":     func(c *nfs.ProvisioningConfig) { c.Provisioner = "" },
		"config.server":          func(c *nfs.ProvisioningConfig) { c.Server = "-x" },
		"config.path":            func(c *nfs.ProvisioningConfig) { c.Path = "relative" },
		"config.dir":             func(c *nfs.ProvisioningConfig) { c.Dir = "relative" },
		"config.mountOptions[0]": func(c *nfs.ProvisioningConfig) { c.MountOptions = []string{"bind"} },
		"Config.Mounter":         func(c *nfs.ProvisioningConfig) { c.Mounter = nil },
	} {
		config := provisioningConfig(mounttest.NewFake(mount.Config{}), "/")
		change(&config)
		plugin := nfs.NewProvisioning(config)
		require.ErrorContains(t, plugin.Init(t.Context(), host), name)
		_, err := plugin.NewProvisioner(optionsOf("pvc-1", nil))
		require.Error(t, err)
		_, err = plugin.NewDeleter(volume.NewSpecFromPersistentVolume(otherProgramVolume("/k8s/dir"), false))
		require.Error(t, err)
	}
}

// TestDeleteUnstored: no archive is left of a volume for which no object was stored, unless its directory has files.
func TestDeleteUnstored(t *testing.T) {
	p := newProvisioning(t)
	require.NoError(t, p.deleteUnstored(p.mustProvision(optionsOf("pvc-1", nil))))
	p.requireFiles()
	p.requireRecords(0)
	used := p.mustProvision(optionsOf("pvc-2", nil))
	p.write(used, "file")
	require.NoError(t, p.deleteUnstored(used))
	p.requireFiles("archived-ns-data-pvc-2", "archived-ns-data-pvc-2/file")
	p.requireRecords(0)
}

// TestExportName: the volumes of an export have its name, which belongs to no other export.
func TestExportName(t *testing.T) {
	one, other := newProvisioning(t), newProvisioning(t)
	name := func(p *provisioning, pvName string) string {
		return p.mustProvision(optionsOf(pvName, nil)).Annotations[volume.StorageAnnotation]
	}
	first := name(one, "pvc-1")
	require.NotEmpty(t, first)
	require.Equal(t, first, name(one, "pvc-1"))
	require.Equal(t, first, name(one, "pvc-2"))
	require.NotEqual(t, first, name(other, "pvc-1"))

	require.NoError(t, os.Remove(one.export+"/.volumekit/export"))
	require.Empty(t, name(one, "pvc-1"), "the volume has had a name that is lost")
	require.NotEqual(t, first, name(one, "pvc-3"))
}
