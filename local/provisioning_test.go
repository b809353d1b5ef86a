package local_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	provisionerName = "example.com/local"
	thisNode        = "node-1"
)

// A provisioningNode is a node with a provisioner for the directories "claims" and "more".
type provisioningNode struct {
	claims, more string
	mounter      mount.Interface
	plugin       *local.ProvisioningPlugin
}

func newProvisioningNode(t *testing.T) *provisioningNode {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return provisioningIn(t, dir, mounttest.NewFake(mount.Config{}))
}

// provisioningIn is the node that lives in dir, also after a restart.
func provisioningIn(t require.TestingT, dir string, m mount.Interface, changes ...func(*local.ProvisioningConfig)) *provisioningNode {
	n := &provisioningNode{claims: dir + "/claims", more: dir + "/more", mounter: m}
	for _, d := range []string{n.claims, n.more, dir + "/root"} {
		require.NoError(t, os.MkdirAll(d, 0o755))
	}
	host, err := volume.NewHost(context.Background(), dir+"/root", volume.WithNodeName(thisNode))
	require.NoError(t, err)
	config := local.ProvisioningConfig{
		Config: local.Config{Mounter: m}, Provisioner: provisionerName, ClaimRoots: []string{n.claims, n.more},
	}
	for _, change := range changes {
		change(&config)
	}
	n.plugin = local.NewProvisioning(config)
	_, err = volume.NewVolumePluginMgr(context.Background(), host, n.plugin)
	require.NoError(t, err)
	return n
}

// claimOptions returns options for a claim of a size, whose pod runs on this node.
func claimOptions(name, size string) volume.VolumeOptions {
	policy := v1.PersistentVolumeReclaimDelete
	return volume.VolumeOptions{
		PVName: name,
		PVC: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim"},
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
			},
		},
		StorageClass: storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: provisionerName, ReclaimPolicy: &policy,
			Parameters: map[string]string{},
		},
		SelectedNode: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: thisNode, Labels: map[string]string{v1.LabelHostname: thisNode}}},
	}
}

func (n *provisioningNode) provision(o volume.VolumeOptions) (*v1.PersistentVolume, error) {
	p, err := n.plugin.NewProvisioner(o)
	if err != nil {
		return nil, err
	}
	return p.Provision(context.Background())
}

func (n *provisioningNode) delete(pv *v1.PersistentVolume) error {
	d, err := n.plugin.NewDeleter(volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return err
	}
	return d.Delete(context.Background())
}

// requireEmpty requires that the roots have neither directories nor records of them.
func (n *provisioningNode) requireEmpty(t *testing.T, what ...any) {
	t.Helper()
	for _, root := range []string{n.claims, n.more} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			require.NoError(t, err)
			rest, _ := filepath.Rel(root, path)
			isOfRecords := rest == "." || rest == ".volumekit" || filepath.Dir(rest) == ".volumekit"
			require.True(t, isOfRecords && entry.IsDir(), "%s is left: %v", path, what)
			return nil
		}))
	}
}

// TestProvisioningContract: provisioned directories keep the contract of plugins and provisioners.
func TestProvisioningContract(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		config := provisioningContract(t)
		config.NoMetrics = true
		volumetest.TestPlugin(t, config)
	})
	t.Run("real", func(t *testing.T) {
		if mounttest.Namespace(t) {
			config := provisioningContract(t)
			config.NewMounter = func(*testing.T) mount.Interface { return mount.New(mount.Config{}) }
			volumetest.TestPlugin(t, config)
		}
	})
}

func provisioningContract(t *testing.T) volumetest.Config[*testing.T] {
	config := contractConfig(t, nil)
	claims, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	anyNode := func(name, size string) volume.VolumeOptions {
		o := claimOptions(name, size)
		o.SelectedNode = nil
		return o
	}
	roots := config.New(t, nil, nil).(*local.Plugin)
	config.New = func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
		return local.NewProvisioning(local.ProvisioningConfig{
			Config: local.ConfigOf(roots, m), Provisioner: provisionerName, ClaimRoots: []string{claims},
		})
	}
	config.Claim = func(*testing.T) volume.VolumeOptions { return anyNode("pvc-1", "1Mi") }
	selector := anyNode("pvc-2", "1Mi")
	selector.PVC.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	unknown := anyNode("pvc-3", "1Mi")
	unknown.StorageClass.Parameters["color"] = "blue"
	config.Infeasible = map[string]volume.VolumeOptions{
		"size of 0": anyNode("pvc-4", "0"), "too large": anyNode("pvc-5", "1Ei"), "selector": selector, "parameter": unknown,
	}
	return config
}

// TestProvision: the volume describes a new directory with the mode of the class.
func TestProvision(t *testing.T) {
	n := newProvisioningNode(t)
	o := claimOptions("pvc-1", "1Mi")
	o.StorageClass.Parameters = map[string]string{local.RootParameter: n.more, local.ModeParameter: "0750"}
	pv, err := n.provision(o)
	require.NoError(t, err)
	require.Equal(t, n.more+"/pvc-1", pv.Spec.Local.Path)
	info, err := os.Lstat(pv.Spec.Local.Path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|0o750, info.Mode())
	host, ok := local.ProvisionedFor(pv)
	require.True(t, ok)
	require.Equal(t, thisNode, host)
	const lack = ".*(prjquota|Linux|CAP_SYS_ADMIN)"
	require.Regexp(t, "^none: "+lack, pv.Annotations[local.QuotaAnnotation])
	require.Regexp(t, "^no quota enforces the size: "+lack, pv.Annotations[volume.ProvisioningNoteAnnotation])
	require.NoError(t, n.delete(pv))
	n.requireEmpty(t)
}

// TestProvisionRefused: an error names field and value, and nothing is created.
func TestProvisionRefused(t *testing.T) {
	block := v1.PersistentVolumeBlock
	long := strings.Repeat("x", 4096)
	for name, c := range map[string]struct {
		change func(*volume.VolumeOptions)
		kind   error
		field  string
	}{
		"size 0":         {func(o *volume.VolumeOptions) { setSize(o, "0") }, volume.ErrInfeasible, "requests.storage: Invalid value: \"0\""},
		"size negative":  {func(o *volume.VolumeOptions) { setSize(o, "-1Gi") }, volume.ErrInfeasible, `requests.storage: Invalid value: "-1Gi"`},
		"size 1Ei":       {func(o *volume.VolumeOptions) { setSize(o, "1Ei") }, volume.ErrReschedule, `requests.storage: Invalid value: "1Ei"`},
		"size 1Ei, any":  {func(o *volume.VolumeOptions) { setSize(o, "1Ei"); o.SelectedNode = nil }, volume.ErrInfeasible, `requests.storage: Invalid value: "1Ei"`},
		"no size":        {func(o *volume.VolumeOptions) { o.PVC.Spec.Resources.Requests = nil }, volume.ErrInfeasible, "requests.storage"},
		"no claim":       {func(o *volume.VolumeOptions) { o.PVC = nil }, volume.ErrInfeasible, "claim"},
		"block":          {func(o *volume.VolumeOptions) { o.PVC.Spec.VolumeMode = &block }, volume.ErrInfeasible, `volumeMode: Invalid value: "Block"`},
		"block, kind":    {func(o *volume.VolumeOptions) { o.PVC.Spec.VolumeMode = &block }, volume.ErrNotSupported, "volumeMode"},
		"parameter":      {func(o *volume.VolumeOptions) { o.StorageClass.Parameters["color"] = "blue" }, volume.ErrInfeasible, `parameters[color]: Invalid value: "blue"`},
		"long parameter": {func(o *volume.VolumeOptions) { o.StorageClass.Parameters[long] = long }, volume.ErrInfeasible, "parameters[xxx"},
		"root":           {func(o *volume.VolumeOptions) { o.StorageClass.Parameters["root"] = "/etc" }, volume.ErrInfeasible, `parameters[root]: Invalid value: "/etc"`},
		"mode":           {func(o *volume.VolumeOptions) { o.StorageClass.Parameters["mode"] = "4777" }, volume.ErrInfeasible, `parameters[mode]: Invalid value: "4777"`},
		"mode text":      {func(o *volume.VolumeOptions) { o.StorageClass.Parameters["mode"] = "rwx" }, volume.ErrInfeasible, `parameters[mode]: Invalid value: "rwx"`},
		"quota":          {func(o *volume.VolumeOptions) { o.StorageClass.Parameters["quota"] = "1" }, volume.ErrInfeasible, `parameters[quota]: Invalid value: "1"`},
		"quota lacking":  {func(o *volume.VolumeOptions) { o.StorageClass.Parameters["quota"] = "require" }, volume.ErrReschedule, `parameters[quota]: Invalid value: "require"`},
		"mount options":  {func(o *volume.VolumeOptions) { o.StorageClass.MountOptions = []string{"loop=/dev/loop0"} }, volume.ErrInfeasible, "loop=/dev/loop0"},
		"data source": {func(o *volume.VolumeOptions) {
			o.PVC.Spec.DataSource = &v1.TypedLocalObjectReference{Name: "snapshot"}
		}, volume.ErrInfeasible, `dataSource: Invalid value: "snapshot"`},
		"data source ref": {func(o *volume.VolumeOptions) {
			o.PVC.Spec.DataSourceRef = &v1.TypedObjectReference{Name: "snapshot"}
		}, volume.ErrInfeasible, `dataSourceRef: Invalid value: "snapshot"`},
		"attributes": {func(o *volume.VolumeOptions) { o.VolumeAttributesClass.Name = "gold" }, volume.ErrInfeasible, `volumeAttributesClassName: Invalid value: "gold"`},
		"hostname":   {func(o *volume.VolumeOptions) { o.SelectedNode.Labels[v1.LabelHostname] = "other" }, volume.ErrInfeasible, `Invalid value: "other"`},
		"records":    {func(o *volume.VolumeOptions) { o.PVName = ".volumekit" }, volume.ErrInfeasible, `pvName: Invalid value: ".volumekit"`},
		"long name":  {func(o *volume.VolumeOptions) { o.PVName = long }, volume.ErrInfeasible, "pvName: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newProvisioningNode(t)
			o := claimOptions("pvc-1", "1Mi")
			c.change(&o)
			_, err := n.provision(o)
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.field)
			require.Less(t, len(err.Error()), 1024)
			require.Equal(t, volume.Final, volume.KindOf(err))
			if name != "mount options" {
				var ofField *field.Error
				require.ErrorAs(t, err, &ofField)
			}
			n.requireEmpty(t)
		})
	}
}

// TestRootStays: a root is chosen before an earlier one only for clearly more space.
func TestRootStays(t *testing.T) {
	const capacity = 1000
	for _, test := range []struct {
		available, than, request int64
		want                     bool
	}{
		{100, 100, 1, false}, {105, 100, 1, false}, {110, 100, 1, false}, {111, 100, 1, true}, {95, 100, 1, false},
		{530, 500, 1, true}, {520, 500, 1, false}, {10, 0, 0, false}, {11, 0, 0, true},
		{100, 98, 99, true}, {98, 100, 99, false}, {90, 88, 99, false},
	} {
		use, than := fsusage.Usage{Available: test.available, Capacity: capacity}, fsusage.Usage{Available: test.than, Capacity: capacity}
		require.Equal(t, test.want, local.IsRoomier(use, than, test.request), "%+v", test)
	}
	n := newProvisioningNode(t)
	for range 10 {
		pv, err := n.provision(claimOptions("pvc-1", "1Mi"))
		require.NoError(t, err)
		require.Equal(t, n.claims+"/pvc-1", pv.Spec.Local.Path, "both roots are on one file system")
		require.NoError(t, n.delete(pv))
	}
}

func setSize(o *volume.VolumeOptions, size string) {
	o.PVC.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse(size)
}

// TestProvisioningOfOthers: claims and volumes of another node, and of another provisioner, are ignored.
func TestProvisioningOfOthers(t *testing.T) {
	n := newProvisioningNode(t)
	var ignored *volume.IgnoredError
	o := claimOptions("pvc-1", "1Mi")
	o.SelectedNode.Name = "node-2"
	_, err := n.provision(o)
	require.ErrorAs(t, err, &ignored)
	require.ErrorContains(t, err, `"node-2"`)
	n.requireEmpty(t)

	pv, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(n.claims+"/pvc-foreign", 0o755))
	require.NoError(t, os.MkdirAll(n.claims+"/deep/pvc-1", 0o755))
	for name, change := range map[string]func(*v1.PersistentVolume){
		"other node":  func(pv *v1.PersistentVolume) { affinityValues(pv)[0] = "node-2" },
		"no affinity": func(pv *v1.PersistentVolume) { pv.Spec.NodeAffinity = nil },
		"no record": func(pv *v1.PersistentVolume) {
			pv.Name, pv.Spec.Local.Path = "pvc-foreign", filepath.Dir(pv.Spec.Local.Path)+"/pvc-foreign"
		},
		"other name":  func(pv *v1.PersistentVolume) { pv.Name = "pvc-foreign" },
		"other depth": func(pv *v1.PersistentVolume) { pv.Spec.Local.Path = n.claims + "/deep/pvc-1" },
		"records":     func(pv *v1.PersistentVolume) { pv.Name, pv.Spec.Local.Path = ".volumekit", n.claims+"/.volumekit" },
	} {
		changed := pv.DeepCopy()
		changed.Spec.Local.Path = n.claims + "/pvc-1"
		change(changed)
		require.ErrorAs(t, n.delete(changed), &ignored, name)
	}
	require.DirExists(t, pv.Spec.Local.Path)
	require.DirExists(t, n.claims+"/pvc-foreign")
	require.DirExists(t, n.claims+"/deep/pvc-1")
	require.DirExists(t, filepath.Dir(pv.Spec.Local.Path)+"/.volumekit")
}

func affinityValues(pv *v1.PersistentVolume) []string {
	return pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
}

// TestFormerClaimRoots: in a former root no directory is created, and those that exist are found and deleted.
func TestFormerClaimRoots(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	kernel := mounttest.NewFake(mount.Config{})
	n := provisioningIn(t, dir, kernel, func(c *local.ProvisioningConfig) { c.ClaimRoots = c.ClaimRoots[:1] })
	pv, err := n.provision(claimOptions("pvc-1", "1Ki"))
	require.NoError(t, err)

	n = provisioningIn(t, dir, kernel, func(c *local.ProvisioningConfig) { c.ClaimRoots = c.ClaimRoots[1:] })
	err = n.delete(pv)
	require.ErrorAs(t, err, new(*volume.IgnoredError))
	require.ErrorContains(t, err, n.claims+"/pvc-1")
	require.DirExists(t, n.claims+"/pvc-1")

	n = provisioningIn(t, dir, kernel, func(c *local.ProvisioningConfig) {
		c.ClaimRoots, c.FormerClaimRoots = c.ClaimRoots[1:], c.ClaimRoots[:1]
	})
	again, err := n.provision(claimOptions("pvc-1", "1Ki"))
	require.NoError(t, err)
	require.Equal(t, pv.Spec.Local, again.Spec.Local, "an earlier call is continued")
	other, err := n.provision(claimOptions("pvc-2", "1Ki"))
	require.NoError(t, err)
	require.Equal(t, n.more+"/pvc-2", other.Spec.Local.Path)
	inFormer := claimOptions("pvc-1", "1Ki")
	inFormer.StorageClass.Parameters[local.RootParameter] = n.claims
	again, err = n.provision(inFormer)
	require.NoError(t, err)
	require.Equal(t, pv.Spec.Local, again.Spec.Local, "the class names the former root")
	inFormer.PVName = "pvc-3"
	_, err = n.provision(inFormer)
	require.ErrorIs(t, err, volume.ErrInfeasible)
	require.ErrorContains(t, err, "must be one of the provisioner's directories")
	require.NoError(t, n.delete(pv))
	require.NoError(t, n.delete(other))
	n.requireEmpty(t)
}

// TestProvisionForeignEntry: an entry without a record is neither used nor deleted.
func TestProvisionForeignEntry(t *testing.T) {
	n := newProvisioningNode(t)
	outside := t.TempDir()
	for _, root := range []string{n.claims, n.more} {
		require.NoError(t, os.Symlink(outside, root+"/pvc-1"))
	}
	_, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.ErrorContains(t, err, "an entry of this name exists that the provisioner has not made")
	require.Equal(t, volume.Final, volume.KindOf(err))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoDirExists(t, n.claims+"/.volumekit")
}

// TestDeleteAll: Delete deletes all that a pod can leave in its volume.
func TestDeleteAll(t *testing.T) {
	n := newProvisioningNode(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/precious", nil, 0o600))
	pv, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.NoError(t, err)
	dir := pv.Spec.Local.Path
	for _, name := range []string{"lost+found/a/b", ".volumekit/claims"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	require.NoError(t, os.WriteFile(dir+"/a\nb", nil, 0o600))
	require.NoError(t, os.Symlink(outside, dir+"/link"))
	require.NoError(t, n.delete(pv))
	n.requireEmpty(t)
	require.FileExists(t, outside+"/precious")
}

// TestDeleteReplaced: a directory that was replaced by a symbolic link keeps its target.
func TestDeleteReplaced(t *testing.T) {
	n := newProvisioningNode(t)
	pv, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.NoError(t, err)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/precious", nil, 0o600))
	require.NoError(t, os.Remove(pv.Spec.Local.Path))
	require.NoError(t, os.Symlink(outside, pv.Spec.Local.Path))
	err = n.delete(pv)
	require.Error(t, err)
	require.FileExists(t, outside+"/precious")
	require.NotEqual(t, volume.Success, volume.KindOf(err))
}

// TestDeleteWithoutFileSystem: a root without records is not taken for one whose directory is deleted.
func TestDeleteWithoutFileSystem(t *testing.T) {
	n := newProvisioningNode(t)
	pv, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.NoError(t, err)
	root := filepath.Dir(pv.Spec.Local.Path)
	require.NoError(t, os.Rename(root, root+".mounted"))
	require.NoError(t, os.Mkdir(root, 0o755))
	err = n.delete(pv)
	require.ErrorIs(t, err, local.ErrNoClaimRecords)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.NoError(t, os.Remove(root))
	require.NoError(t, os.Rename(root+".mounted", root))
	require.NoError(t, n.delete(pv))
	require.NoError(t, n.delete(pv))
	n.requireEmpty(t)
}

// TestDeleteMounted: a directory that a pod has keeps its files.
func TestDeleteMounted(t *testing.T) {
	n := newProvisioningNode(t)
	pv, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(pv.Spec.Local.Path+"/precious", nil, 0o600))
	m, err := n.plugin.NewMounter(volume.NewSpecFromPersistentVolume(pv, false), pod("1"))
	require.NoError(t, err)
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
	err = n.delete(pv)
	require.ErrorIs(t, err, local.ErrClaimMounted)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.FileExists(t, pv.Spec.Local.Path+"/precious")
	u, err := n.plugin.NewUnmounter(pv.Name, "1")
	require.NoError(t, err)
	require.NoError(t, u.TearDown(t.Context()))
	require.NoError(t, n.delete(pv))
	n.requireEmpty(t)
}

// TestProvisionWhileDeleting: a directory whose deletion was interrupted is not handed out again.
func TestProvisionWhileDeleting(t *testing.T) {
	n := newProvisioningNode(t)
	pv, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.NoError(t, err)
	record := filepath.Dir(pv.Spec.Local.Path) + "/.volumekit/claims/pvc-1"
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(record, []byte(strings.Replace(string(text), `"ready"`, `"deleting"`, 1)), 0o600))
	_, err = n.provision(claimOptions("pvc-1", "1Mi"))
	require.ErrorContains(t, err, "is being deleted")
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.NoError(t, n.delete(pv))
	n.requireEmpty(t)
}

// TestProvisionReverts: after a final error in the middle nothing is left, and no record is guessed.
func TestProvisionReverts(t *testing.T) {
	n := newProvisioningNode(t)
	for _, root := range []string{n.claims, n.more} {
		require.NoError(t, os.WriteFile(root+"/.volumekit", nil, 0o600))
	}
	_, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.Error(t, err)
	require.NoDirExists(t, n.claims+"/pvc-1")
	require.NoDirExists(t, n.more+"/pvc-1")
	for _, root := range []string{n.claims, n.more} {
		require.NoError(t, os.Remove(root+"/.volumekit"))
	}
	pv, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.NoError(t, err)
	record := filepath.Dir(pv.Spec.Local.Path) + "/.volumekit/claims/pvc-1"
	for _, text := range []string{"", "{}", `{"state":"odd"}`} {
		require.NoError(t, os.WriteFile(record, []byte(text), 0o600))
		var unreadable *local.RecordError
		_, err = n.provision(claimOptions("pvc-1", "1Mi"))
		require.ErrorAs(t, err, &unreadable)
		require.Equal(t, volume.Transient, volume.KindOf(err))
		require.ErrorAs(t, n.delete(pv), &unreadable)
		require.DirExists(t, pv.Spec.Local.Path)
	}
}

// TestProvisionConcurrently: calls for one volume return the same one; those for others do not meet.
func TestProvisionConcurrently(t *testing.T) { newProvisioningNode(t).provisionConcurrently(t) }

// TestProvisionBesideWriter is TestProvisionConcurrently while the space on the roots changes.
func TestProvisionBesideWriter(t *testing.T) {
	testbed.Attacks(t)
	n := newProvisioningNode(t)
	f, err := os.Create(filepath.Dir(n.claims) + "/file")
	require.NoError(t, err)
	defer f.Close()
	defer testbed.Attack(t, func(int) {
		_, _ = f.WriteAt(make([]byte, 64<<10), 0)
		_ = f.Truncate(0)
	})()
	n.provisionConcurrently(t)
}

func (n *provisioningNode) provisionConcurrently(t *testing.T) {
	t.Helper()
	for range testbed.UpTo(50, 500) {
		const calls = 8
		var volumes [2 * calls]*v1.PersistentVolume
		var group sync.WaitGroup
		for i := range volumes {
			group.Go(func() {
				pv, err := n.provision(claimOptions([]string{"pvc-1", "pvc-2"}[i%2], "1Mi"))
				if err != nil {
					t.Error(err)
				}
				volumes[i] = pv
			})
		}
		group.Wait()
		for i, pv := range volumes {
			require.Equal(t, volumes[i%2], pv)
		}
		require.NoError(t, n.delete(volumes[0]))
		require.NoError(t, n.delete(volumes[1]))
		n.requireEmpty(t)
	}
}

// TestProvisioningInit: a configuration with which no claim could be served is refused.
func TestProvisioningInit(t *testing.T) {
	dir := t.TempDir()
	host, err := volume.NewHost(t.Context(), t.TempDir(), volume.WithNodeName(thisNode))
	require.NoError(t, err)
	good := local.ProvisioningConfig{Config: local.Config{Mounter: mounttest.NewFake(mount.Config{})}, Provisioner: provisionerName, ClaimRoots: []string{dir}}
	for text, change := range map[string]func(*local.ProvisioningConfig){
		"Provisioner is missing": func(c *local.ProvisioningConfig) { c.Provisioner = "" },
		"ClaimRoots is missing":  func(c *local.ProvisioningConfig) { c.ClaimRoots = nil },
		"must be absolute":       func(c *local.ProvisioningConfig) { c.ClaimRoots = []string{"claims"} },
		"no such file":           func(c *local.ProvisioningConfig) { c.ClaimRoots = []string{dir + "/missing"} },
		"Hostname \"a/b\"":       func(c *local.ProvisioningConfig) { c.Hostname = "a/b" },
		"Mounter is missing":     func(c *local.ProvisioningConfig) { c.Mounter = nil },
	} {
		config := good
		change(&config)
		plugin := local.NewProvisioning(config)
		require.ErrorContains(t, plugin.Init(t.Context(), host), text)
		_, err := plugin.NewProvisioner(claimOptions("pvc-1", "1Mi"))
		require.Error(t, err)
		_, err = plugin.NewDeleter(spec(dir + "/pvc-1"))
		require.Error(t, err)
	}
}
