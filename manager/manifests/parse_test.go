package manifests

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podYAML returns a pod whose container mounts all of its volumes.
func podYAML(name string, volumes ...string) string {
	var mounts, all strings.Builder
	for _, v := range volumes {
		all.WriteString("  - " + v + "\n")
		volume, _, _ := strings.Cut(strings.TrimPrefix(v, "{name: "), ",")
		mounts.WriteString("{name: " + strings.TrimSuffix(volume, "}") + ", mountPath: /x},")
	}
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  containers: [{name: c, volumeMounts: [" +
		strings.TrimSuffix(mounts.String(), ",") + "]}]\n  volumes:\n" + all.String()
}

const (
	claimYAML  = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {volumeName: disk}\n"
	volumeYAML = "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: disk}\nspec: {local: {path: /mnt/disk}}\n"
	configYAML = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {a.conf: text}\n"
	secretYAML = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {key: sesame}\n"
)

// yamlBomb is a short document that expands to a long one.
var yamlBomb = func() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		next, last := string(rune('1'+i)), string(rune('0'+i))
		b.WriteString("a" + next + ": &a" + next + " [" + strings.TrimSuffix(strings.Repeat("*a"+last+",", 9), ",") + "]\n")
	}
	return b.String()
}()

// TestListCountsAsItsObjects: a List, as kubectl get -o yaml prints it, counts as its objects.
func TestListCountsAsItsObjects(t *testing.T) {
	text := "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: \"\"}\nitems:\n" +
		"- {apiVersion: v1, kind: Pod, metadata: {name: p, resourceVersion: \"5\"}, spec: {containers: [{name: x}], volumes: [{name: v}]}, status: {phase: Running}}\n" +
		"- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}\n" + configYAML
	all, err := parse("f.yaml", []byte(text))
	require.NoError(t, err)
	require.Len(t, all, 3)
	for i, name := range []string{"Pod/p", "ConfigMap/c", "ConfigMap/conf"} {
		require.Equal(t, name, all[i].Name)
		require.Equal(t, "default", all[i].Object.GetNamespace())
	}
	pod := all[0].Object.(*v1.Pod)
	require.NotNil(t, pod.Spec.Volumes[0].EmptyDir, "defaults are set")
	require.Equal(t, 1, all[1].Index)
	require.Equal(t, 2, all[2].Index)

	item := "- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n"
	_, err = parse("f.yaml", []byte("apiVersion: v1\nkind: List\nitems:\n"+strings.Repeat(item, maxDocuments+1)))
	require.ErrorContains(t, err, "at most 1000 objects")
}

var invalidManifests = map[string]struct{ text, errText string }{
	"empty":             {"", "f.yaml: the file has no object"},
	"only comments":     {"# nothing\n---\n# either\n", "f.yaml: the file has no object"},
	"not YAML":          {podYAML("p") + "---\n{[\n", "f.yaml, document 2: not valid YAML, near line 1"},
	"half a document":   {podYAML("p")[:40], "f.yaml, document 1"},
	"quantity":          {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: p}\nspec: {capacity: {storage: 10 GB}}\n", "spec.capacity.storage: Invalid value: not a quantity"},
	"limit":             {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {limits: {memory: much}}}]}\n", "spec.containers[0].resources.limits.memory: Invalid value: not a quantity"},
	"endless quantity":  {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: p}\nspec: {capacity: {storage: \"1e-99999999\"}}\n", "spec.capacity.storage: Invalid value"},
	"a word":            {"hello\n", "document 1: not an object, but a string"},
	"other version":     {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n", `(Deployment/d): apiVersion: Unsupported value: "apps/v1"`},
	"list of lists":     {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: []}\n", `items[0]: kind: Unsupported value: "List"`},
	"bad item":          {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}, spek: {}}\n", `document 1 (Pod/p): items[0]: strict decoding error: unknown field "spek"`},
	"item of nothing":   {"apiVersion: v1\nkind: List\nitems: [null]\n", `items[0]: kind: Unsupported value`},
	"empty list":        {"apiVersion: v1\nkind: List\nitems: []\n", "f.yaml: the file has no object"},
	"list of no list":   {"apiVersion: v1\nkind: List\nitems: {}\n", "items: Invalid value"},
	"twice in a list":   {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s, name: sesame}}\n", "not a List: an unknown field, a field given twice"},
	"other kind":        {"apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", `(Service/s): kind: Unsupported value: "Service"`},
	"unknown field":     {podYAML("p", "{name: x, persistantVolumeClaim: {}}"), `(Pod/p): strict decoding error: unknown field "spec.volumes[0].persistantVolumeClaim"`},
	"field twice":       {podYAML("p", "{name: x, name: z}"), `key "name" already set`},
	"wrong type":        {podYAML("p", "{name: 5}"), `spec.containers[0].volumeMounts[0].name: Invalid value: 5: should be a string`},
	"names of lines":    {"apiVersion: v1\nkind: \"Po\\nd\"\nmetadata: {name: \"x\\n\\e[2K\\u2028y\"}\n", "(Po d/x  [2K y): kind: Unsupported value"},
	"no name":           {"apiVersion: v1\nkind: Pod\nspec: {}\n", "metadata.name: Required value"},
	"bad name":          {podYAML("../x"), `metadata.name: Invalid value: "../x"`},
	"bad namespace":     {strings.Replace(podYAML("p"), "{name", "{namespace: a/b, name", 1), `metadata.namespace: Invalid value: "a/b"`},
	"bad UID":           {strings.Replace(podYAML("p"), "{name", "{uid: a/b, name", 1), `metadata.uid: Invalid value: "a/b"`},
	"namespaced PV":     {strings.Replace(volumeYAML, "{name: d", "{namespace: ns, name: d", 1), `(PersistentVolume/disk): metadata.namespace: Invalid value: "ns"`},
	"volume twice":      {podYAML("p", "{name: x}", "{name: x}"), `spec.volumes[1].name: Duplicate value: "x"`},
	"bad volume name":   {podYAML("p", `{name: "a\e[31m\nb"}`), "spec.volumes[0].name: Invalid value"},
	"no container":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {volumes: [{name: a}]}\n", "spec.containers: Required value"},
	"volume not there":  {strings.Replace(podYAML("p", "{name: x}"), "- {name: x}", "- {name: z}", 1), `spec.containers[0].volumeMounts[0].name: Not found: "x"`},
	"no template":       {podYAML("p", "{name: x, ephemeral: {}}"), "spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"},
	"bad key":           {strings.Replace(configYAML, "a.conf", "../a", 1), `(ConfigMap/conf): data: Invalid value: "../a"`},
	"key twice":         {configYAML + "binaryData: {a.conf: eA==}\n", `data[a.conf]: Invalid value: also in binaryData`},
	"too much data":     {strings.Replace(configYAML, "text", strings.Repeat("x", maxContent+1), 1), "data: Too long"},
	"bomb":              {yamlBomb, "document 1: not valid YAML"},
	"too many":          {strings.Repeat("---\n# x\n", maxDocuments+1), "a file must have at most"},
	"secret, base64":    {strings.Replace(secretYAML, "stringData: {key: sesame}", "data: {key: sesame!}", 1), "not a Secret"},
	"secret, wrong key": {strings.Replace(secretYAML, "stringData", "sesame", 1), "not a Secret"},
	"secret, key":       {strings.Replace(secretYAML, "key: sesame", "sesame=: key", 1), "data: Invalid value: a key is not valid"},
	"secret, in a list": {"- kind: Secret\n  stringData: {key: sesame}\n", "document 1: not an object, but a list"},
	"secret, alone":     {"sesame\n", "document 1: not an object, but a string"},
	"secret, alias":     {strings.Replace(secretYAML, "sesame", "*sesame", 1), "document 1: not valid YAML"},
	"secret, tag":       {strings.Replace(secretYAML, "sesame", "!!float sesame", 1), "document 1: not valid YAML"},
	"secret, dashes":    {secretYAML + "-----BEGIN sesame\n", "invalid separator of documents"},
	"secret, torn":      {secretYAML[:len(secretYAML)-2], "document 1: not valid YAML, near line 5 of the document"},
	"secret, type":      {strings.Replace(secretYAML, "{key: sesame}", "sesame", 1), "stringData: Invalid value"},
}

// TestInvalidManifestsAreRefused: the error of an invalid manifest is a Problem of one short line,
// without the values of secrets.
func TestInvalidManifestsAreRefused(t *testing.T) {
	for name, test := range invalidManifests {
		t.Run(name, func(t *testing.T) {
			_, err := parse("f.yaml", []byte(test.text))
			require.ErrorContains(t, err, test.errText)
			require.ErrorAs(t, err, new(Problem))
			require.NotContains(t, err.Error(), "sesame")
			require.NotRegexp(t, `[\pC\p{Zl}\p{Zp}]`, err.Error(), "not one line")
			require.Less(t, len(err.Error()), 1000)
		})
	}
}

// TestValidManifests: valid manifests have the API server's defaults.
func TestValidManifests(t *testing.T) {
	for name, text := range map[string]string{
		"all kinds": podYAML("p", "{name: x}") + claimYAML + volumeYAML + configYAML + secretYAML,
		"comments":  "# a\n---\n---\n# b\n" + podYAML("p"),
		"JSON":      `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "binaryData": {"b": "eA=="}}`,
	} {
		documents, err := parse("f.yaml", []byte(text))
		require.NoError(t, err, name)
		for _, d := range documents {
			if _, ok := d.Object.(*v1.PersistentVolume); !ok {
				require.Equal(t, "default", d.Object.GetNamespace())
			}
		}
	}
	documents, err := parse("f.yaml", []byte(secretYAML))
	require.NoError(t, err)
	require.Equal(t, "sesame", string(documents[0].Object.(*v1.Secret).Data["key"]))
}

// TestLastLine: an unterminated last line of any length is read.
func TestLastLine(t *testing.T) {
	const before, after = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "`, `"}}`
	for _, size := range []int{4095, 4096, 4097, 8192, 65536} {
		value := strings.Repeat("x", size-len(before)-len(after))
		documents, err := parse("f.yaml", []byte(podYAML("p")+"---\n"+before+value+after))
		require.NoError(t, err, size)
		require.Len(t, documents, 2, size)
		require.Equal(t, value, documents[1].Object.(*v1.ConfigMap).Data["a"], size)
	}
	documents, err := parse("f.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: |+\n    text\n"))
	require.NoError(t, err)
	require.Equal(t, "text\n", documents[0].Object.(*v1.ConfigMap).Data["a"])
}

// FuzzManifests: no content panics, and valid content can be combined with itself.
func FuzzManifests(f *testing.F) {
	for name, bad := range invalidManifests {
		if !strings.HasPrefix(name, "too") {
			f.Add(bad.text)
		}
	}
	f.Add(podYAML("p", "{name: x, ephemeral: {volumeClaimTemplate: {spec: {volumeName: disk}}}}") + volumeYAML)
	f.Add(claimYAML + volumeYAML + configYAML + secretYAML)
	f.Fuzz(func(t *testing.T, text string) {
		documents, err := parse("f.yaml", []byte(text))
		if err != nil {
			var problem Problem
			require.True(t, errors.As(err, &problem))
			require.Equal(t, "f.yaml", problem.File)
			return
		}
		all := combineFiles([]file{{documents: documents}, {documents: documents}}, "node")
		require.NotEmpty(t, all.problems)
		for _, pod := range all.pods {
			require.NotEmpty(t, pod.UID)
		}
	})
}

// TestZeroSource: a source that New did not return has nothing, and its error names the field.
func TestZeroSource(t *testing.T) {
	var s Source
	for name, call := range map[string]func() error{
		"New":                   func() error { _, err := New(t.Context(), Config{}); return err },
		"Settle":                func() error { _, err := New(t.Context(), Config{Dir: t.TempDir(), Settle: -1}); return err },
		"Poll":                  func() error { _, err := New(t.Context(), Config{Dir: t.TempDir(), Poll: -1}); return err },
		"Keep":                  func() error { dir := t.TempDir(); _, err := New(t.Context(), Config{Dir: dir, Keep: dir}); return err },
		"Run":                   func() error { return s.Run(t.Context()) },
		"Pods":                  func() error { _, err := s.Pods(t.Context()); return err },
		"PersistentVolumeClaim": func() error { _, err := s.GetPersistentVolumeClaim(t.Context(), "", ""); return err },
		"PersistentVolume":      func() error { _, err := s.GetPersistentVolume(t.Context(), ""); return err },
		"GetConfigMap":          func() error { _, err := s.GetConfigMap(t.Context(), "", ""); return err },
		"GetSecret":             func() error { _, err := s.GetSecret(t.Context(), "", ""); return err },
	} {
		var refused *field.Error
		require.ErrorAs(t, call(), &refused, name)
	}
	require.Empty(t, s.Problems())
	require.Nil(t, s.Changed())
	require.Empty(t, Problem{}.Error())
	require.Equal(t, "a.yaml", Problem{File: "a.yaml"}.Error())
}
