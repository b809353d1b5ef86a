package manifests

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumeOfPod returns a pod with one volume and no container.
func volumeOfPod(source string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  volumes:\n  - {name: v, " + source + "}\n"
}

// withTemplate returns a pod with an ephemeral volume.
func withTemplate(claimSpec string) string {
	return volumeOfPod("ephemeral: {volumeClaimTemplate: {spec: {" + claimSpec + "}}}")
}

const byClaim = "persistentVolumeClaim: {claimName: x}"

func claimTo(pv string, more ...string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: x}\nspec: {%s}\n",
		strings.Join(append(more, "volumeName: "+pv), ", "))
}

func diskYAML(name string, more ...string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %s}\nspec: {%s}\n",
		name, strings.Join(append(more, "local: {path: /a}"), ", "))
}

// volumesOf resolves the volumes of the only pod of a manifest.
func volumesOf(t *testing.T, text string) ([]Volume, error) {
	t.Helper()
	all, err := Parse("f.yaml", []byte(text))
	require.NoError(t, err, text)
	i := slices.IndexFunc(all, func(d Document) bool { _, ok := d.Object.(*v1.Pod); return ok })
	return Volumes(all[i], all)
}

// TestPodVolumesHaveSpecs: the volumes of a pod have their specifications, through claims of any kind.
func TestPodVolumesHaveSpecs(t *testing.T) {
	for name, test := range map[string]struct {
		text, claim string
		readOnly    bool
	}{
		"by name":          {volumeOfPod(byClaim) + claimTo("one") + diskYAML("one"), "x", false},
		"by reference":     {volumeOfPod(byClaim) + claimTo(`""`) + diskYAML("one", "claimRef: {namespace: default, name: x}"), "x", false},
		"both":             {volumeOfPod(byClaim) + claimTo("one") + diskYAML("one", "claimRef: {name: x, uid: u}"), "x", false},
		"template":         {withTemplate("volumeName: one") + diskYAML("one"), "p-v", false},
		"template, by ref": {withTemplate("") + diskYAML("one", "claimRef: {name: p-v}"), "p-v", false},
		"any order":        {diskYAML("one") + claimTo("one") + "---\n" + volumeOfPod(byClaim), "x", false},
		"read-only claim":  {volumeOfPod("persistentVolumeClaim: {claimName: x, readOnly: true}") + claimTo("one") + diskYAML("one"), "x", true},
	} {
		all, err := volumesOf(t, test.text)
		require.NoError(t, err, name)
		require.Len(t, all, 1, name)
		require.Equal(t, []any{"v", test.claim, "one", test.readOnly}, []any{all[0].Name, all[0].Claim, all[0].Spec.Name(), all[0].Spec.ReadOnly}, name)
	}
	all, err := volumesOf(t, volumeOfPod("emptyDir: {}"))
	require.NoError(t, err)
	require.Equal(t, []any{"v", ""}, []any{all[0].Name, all[0].Claim})
	require.NotNil(t, all[0].Spec.Volume.EmptyDir)
}

// TestVolumesAreRefused: the error of an unresolvable volume names the document and the field.
func TestVolumesAreRefused(t *testing.T) {
	two := volumeOfPod("ephemeral: {volumeClaimTemplate: {spec: {volumeName: one}}}}\n  - {name: w, ephemeral: {volumeClaimTemplate: {spec: {volumeName: one}}}")
	for name, test := range map[string]struct{ text, errText string }{
		"missing claim":      {volumeOfPod(byClaim), `(Pod/p): spec.volumes[0].persistentVolumeClaim.claimName: Invalid value: "x": no such`},
		"claim elsewhere":    {volumeOfPod(byClaim) + strings.Replace(claimTo("one"), "{name", "{namespace: other, name", 1), `in namespace default, only in other`},
		"unbound claim":      {volumeOfPod(byClaim) + claimTo(`""`), "(PersistentVolumeClaim/x): spec.volumeName: Required value"},
		"missing PV":         {volumeOfPod(byClaim) + claimTo("one"), `(PersistentVolumeClaim/x): spec.volumeName: Invalid value: "one"`},
		"missing PV, inline": {withTemplate("volumeName: one"), `(Pod/p): spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeName: Invalid value: "one"`},
		"PV of another":      {volumeOfPod(byClaim) + claimTo("one") + diskYAML("one", "claimRef: {name: other}"), "claimRef to default/other, not to default/x"},
		"PV of an older one": {volumeOfPod(byClaim) + strings.Replace(claimTo("one"), "{name", "{uid: new, name", 1) + diskYAML("one", "claimRef: {name: x, uid: old}"), "claimRef to default/x with UID old"},
		"two PVs for it":     {volumeOfPod(byClaim) + claimTo(`""`) + diskYAML("one", "claimRef: {name: x}") + diskYAML("two", "claimRef: {name: x}"), "several PersistentVolumes is default/x: one, two"},
		"one PV, two claims": {two + diskYAML("one"), `spec.volumes[1]: Invalid value: "w": leads to PersistentVolume one`},
		"volume mode":        {volumeOfPod(byClaim) + claimTo("one", "volumeMode: Block") + diskYAML("one"), `spec.volumeMode: Invalid value: "Block": PersistentVolume one has Filesystem`},
		"access modes":       {volumeOfPod(byClaim) + claimTo("one", "accessModes: [ReadWriteMany]") + diskYAML("one", "accessModes: [ReadWriteOnce]"), `spec.accessModes: Invalid value: "ReadWriteMany": PersistentVolume one has ReadWriteOnce`},
		"PV twice":           {volumeOfPod(byClaim) + diskYAML("one") + diskYAML("one"), `document 3 (PersistentVolume/one): metadata.name: Duplicate value: "one"`},
	} {
		_, err := volumesOf(t, test.text)
		require.ErrorContains(t, err, test.errText, name)
		require.ErrorAs(t, err, new(Problem), name)
		require.ErrorAs(t, err, new(*field.Error), name)
	}
}

// TestForeignDocumentsAreRefused: documents that Parse did not return are refused, too.
func TestForeignDocumentsAreRefused(t *testing.T) {
	ephemeral := &v1.Pod{}
	ephemeral.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
	for name, pod := range map[string]Document{
		"none":        {},
		"another":     {Object: &v1.Secret{}},
		"no template": {Object: ephemeral},
	} {
		_, err := Volumes(pod, nil)
		require.ErrorAs(t, err, new(*field.Error), name)
	}
	_, err := Volumes(Document{Object: &v1.Pod{}}, []Document{{}})
	require.ErrorAs(t, err, new(*field.Error))
}

// TestVolumeProblem: errors name the fields of the documents.
func TestVolumeProblem(t *testing.T) {
	inPod, err := volumesOf(t, volumeOfPod("hostPath: {path: /etc}"))
	require.NoError(t, err)
	persistent, err := volumesOf(t, withTemplate("volumeName: one")+diskYAML("one"))
	require.NoError(t, err)
	options := &mount.InputError{Field: "Options[1]", Value: "bind", Reason: "refused"}
	for _, test := range []struct {
		v       Volume
		err     error
		errText string
	}{
		{inPod[0], field.Invalid(field.NewPath("spec", "volume", "hostPath", "path"), "/etc", "no"), `f.yaml, document 1 (Pod/p): spec.volumes[0].hostPath.path: Invalid value: "/etc": no`},
		{inPod[0], field.Required(field.NewPath("spec"), "no"), "f.yaml, document 1 (Pod/p): spec.volumes[0]: Required value: no"},
		{inPod[0], field.Required(field.NewPath("args"), "no"), "f.yaml, document 1 (Pod/p): args: Required value: no"},
		{inPod[0], options, `f.yaml, document 1 (Pod/p): spec.volumes[0].hostPath: Options[1] "bind": refused`},
		{inPod[0], volume.ErrNoPluginMatched, "f.yaml, document 1 (Pod/p): spec.volumes[0].hostPath: no volume plugin matched"},
		{persistent[0], field.Invalid(field.NewPath("spec", "persistentVolume", "spec", "local", "path"), "/etc", "no"), `f.yaml, document 2 (PersistentVolume/one): spec.local.path: Invalid value: "/etc": no`},
		{persistent[0], options, `f.yaml, document 2 (PersistentVolume/one): spec.mountOptions: Options[1] "bind": refused`},
		{persistent[0], volume.ErrNoPluginMatched, "f.yaml, document 2 (PersistentVolume/one): spec.local: no volume plugin matched"},
		{persistent[0], errors.New("other"), "f.yaml, document 2 (PersistentVolume/one): other"},
	} {
		err := test.v.Problem(test.err)
		require.EqualError(t, err, test.errText)
	}
	require.EqualError(t, Volume{}.Problem(field.Required(field.NewPath("spec"), "no")), "spec: Required value: no")
}
