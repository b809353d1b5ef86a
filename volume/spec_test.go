package volume

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pvOf(source v1.PersistentVolumeSource) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: source},
	}
}

func TestSpecName(t *testing.T) {
	both := &Spec{Volume: &v1.Volume{Name: "a"}, PersistentVolume: pvOf(v1.PersistentVolumeSource{})}
	for name, test := range map[string]struct {
		spec *Spec
		want string
	}{
		"nil":               {nil, ""},
		"empty":             {&Spec{}, ""},
		"both":              {both, ""},
		"volume":            {NewSpecFromVolume(&v1.Volume{Name: "data"}), "data"},
		"persistent volume": {NewSpecFromPersistentVolume(pvOf(v1.PersistentVolumeSource{}), true), "pv"},
		"nil volume":        {NewSpecFromVolume(nil), ""},
		"nil pv":            {NewSpecFromPersistentVolume(nil, false), ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, test.spec.Name()) })
	}
}

// One literal for each kind of source that has a field ReadOnly.
func TestSpecIsReadOnlyBySource(t *testing.T) {
	yes := true
	inline := map[string]v1.VolumeSource{
		"claim":     {PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ReadOnly: true}},
		"gce":       {GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{ReadOnly: true}},
		"aws":       {AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{ReadOnly: true}},
		"nfs":       {NFS: &v1.NFSVolumeSource{ReadOnly: true}},
		"iscsi":     {ISCSI: &v1.ISCSIVolumeSource{ReadOnly: true}},
		"glusterfs": {Glusterfs: &v1.GlusterfsVolumeSource{ReadOnly: true}},
		"rbd":       {RBD: &v1.RBDVolumeSource{ReadOnly: true}},
		"flex":      {FlexVolume: &v1.FlexVolumeSource{ReadOnly: true}},
		"cinder":    {Cinder: &v1.CinderVolumeSource{ReadOnly: true}},
		"cephfs":    {CephFS: &v1.CephFSVolumeSource{ReadOnly: true}},
		"fc":        {FC: &v1.FCVolumeSource{ReadOnly: true}},
		"azureFile": {AzureFile: &v1.AzureFileVolumeSource{ReadOnly: true}},
		"azureDisk": {AzureDisk: &v1.AzureDiskVolumeSource{ReadOnly: &yes}},
		"quobyte":   {Quobyte: &v1.QuobyteVolumeSource{ReadOnly: true}},
		"portworx":  {PortworxVolume: &v1.PortworxVolumeSource{ReadOnly: true}},
		"scaleIO":   {ScaleIO: &v1.ScaleIOVolumeSource{ReadOnly: true}},
		"storageos": {StorageOS: &v1.StorageOSVolumeSource{ReadOnly: true}},
		"csi":       {CSI: &v1.CSIVolumeSource{ReadOnly: &yes}},
	}
	for name, source := range inline {
		t.Run("inline "+name, func(t *testing.T) {
			require.True(t, NewSpecFromVolume(&v1.Volume{VolumeSource: source}).IsReadOnly())
		})
	}
	persistent := map[string]v1.PersistentVolumeSource{
		"gce":       {GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{ReadOnly: true}},
		"aws":       {AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{ReadOnly: true}},
		"nfs":       {NFS: &v1.NFSVolumeSource{ReadOnly: true}},
		"iscsi":     {ISCSI: &v1.ISCSIPersistentVolumeSource{ReadOnly: true}},
		"glusterfs": {Glusterfs: &v1.GlusterfsPersistentVolumeSource{ReadOnly: true}},
		"rbd":       {RBD: &v1.RBDPersistentVolumeSource{ReadOnly: true}},
		"flex":      {FlexVolume: &v1.FlexPersistentVolumeSource{ReadOnly: true}},
		"cinder":    {Cinder: &v1.CinderPersistentVolumeSource{ReadOnly: true}},
		"cephfs":    {CephFS: &v1.CephFSPersistentVolumeSource{ReadOnly: true}},
		"fc":        {FC: &v1.FCVolumeSource{ReadOnly: true}},
		"azureFile": {AzureFile: &v1.AzureFilePersistentVolumeSource{ReadOnly: true}},
		"azureDisk": {AzureDisk: &v1.AzureDiskVolumeSource{ReadOnly: &yes}},
		"quobyte":   {Quobyte: &v1.QuobyteVolumeSource{ReadOnly: true}},
		"portworx":  {PortworxVolume: &v1.PortworxVolumeSource{ReadOnly: true}},
		"scaleIO":   {ScaleIO: &v1.ScaleIOPersistentVolumeSource{ReadOnly: true}},
		"storageos": {StorageOS: &v1.StorageOSPersistentVolumeSource{ReadOnly: true}},
		"csi":       {CSI: &v1.CSIPersistentVolumeSource{ReadOnly: true}},
	}
	for name, source := range persistent {
		t.Run("persistent "+name, func(t *testing.T) {
			require.True(t, NewSpecFromPersistentVolume(pvOf(source), false).IsReadOnly())
		})
	}
}

func TestSpecIsNotReadOnly(t *testing.T) {
	no := false
	for name, spec := range map[string]*Spec{
		"nil":               nil,
		"empty":             {},
		"no source":         NewSpecFromVolume(&v1.Volume{}),
		"no such field":     NewSpecFromVolume(&v1.Volume{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}),
		"field is false":    NewSpecFromVolume(&v1.Volume{VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}}),
		"pointer to false":  NewSpecFromVolume(&v1.Volume{VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{ReadOnly: &no}}}),
		"pointer is nil":    NewSpecFromVolume(&v1.Volume{VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{}}}),
		"persistent volume": NewSpecFromPersistentVolume(pvOf(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{}}), false),
	} {
		t.Run(name, func(t *testing.T) { require.False(t, spec.IsReadOnly()) })
	}
}

func TestSpecMountOptions(t *testing.T) {
	for name, test := range map[string]struct {
		field      []string
		annotation string
		want       []string
		readOnly   bool
	}{
		"none":               {},
		"field":              {field: []string{"hard", "ro"}, want: []string{"hard", "ro"}, readOnly: true},
		"annotation":         {annotation: "hard,ro", want: []string{"hard", "ro"}, readOnly: true},
		"both":               {[]string{"hard"}, "nosuid, ro ,,", []string{"hard", "nosuid", "ro"}, true},
		"contradiction":      {[]string{"ro"}, "rw", []string{"ro", "rw"}, true},
		"several in one":     {field: []string{"hard,ro"}, want: []string{"hard", "ro"}, readOnly: true},
		"several and one":    {[]string{"nfsvers=4.1, hard", "", "noexec,"}, "soft", []string{"nfsvers=4.1", "hard", "noexec", "soft"}, false},
		"not the option":     {field: []string{"root=ro", "norecovery"}, want: []string{"root=ro", "norecovery"}},
		"blanks around":      {field: []string{" ro "}, want: []string{"ro"}, readOnly: true},
		"nothing but commas": {annotation: ",, ,"},
		"commas in quotes":   {[]string{`ro,context="a:s0:c1,c2"`}, `fscontext="b:s0:c1,c2",hard`, []string{"ro", `context="a:s0:c1,c2"`, `fscontext="b:s0:c1,c2"`, "hard"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pv := pvOf(v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{}})
			pv.Spec.MountOptions = test.field
			pv.Annotations = map[string]string{v1.MountOptionAnnotation: test.annotation}
			spec := NewSpecFromPersistentVolume(pv, false)
			require.Equal(t, test.want, spec.MountOptions())
			require.Equal(t, test.readOnly, spec.IsReadOnly())
		})
	}
}

func TestSpecMountOptionsIsACopy(t *testing.T) {
	pv := pvOf(v1.PersistentVolumeSource{})
	pv.Spec.MountOptions = append(make([]string, 0, 8), "hard")
	pv.Annotations = map[string]string{v1.MountOptionAnnotation: "soft"}
	options := NewSpecFromPersistentVolume(pv, false).MountOptions()
	options[0] = "changed"
	require.Equal(t, []string{"hard"}, pv.Spec.MountOptions)
	require.Empty(t, pv.Spec.MountOptions[:2][1], "written beyond the end of the caller's slice")
}

func TestSpecIsBlock(t *testing.T) {
	block, files := v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem
	for name, test := range map[string]struct {
		mode *v1.PersistentVolumeMode
		want bool
	}{
		"not said":    {nil, false},
		"block":       {&block, true},
		"file system": {&files, false},
	} {
		t.Run(name, func(t *testing.T) {
			pv := pvOf(v1.PersistentVolumeSource{})
			pv.Spec.VolumeMode = test.mode
			require.Equal(t, test.want, NewSpecFromPersistentVolume(pv, false).IsBlock())
		})
	}
	require.False(t, (*Spec)(nil).IsBlock())
	require.False(t, NewSpecFromVolume(&v1.Volume{}).IsBlock())
}
