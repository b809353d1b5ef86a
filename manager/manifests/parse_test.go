package manifests

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// podYAML is a pod with volumes, all of which its container has.
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

// bomb is a document that says much with few words.
var bomb = func() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		next, last := string(rune('1'+i)), string(rune('0'+i))
		b.WriteString("a" + next + ": &a" + next + " [" + strings.TrimSuffix(strings.Repeat("*a"+last+",", 9), ",") + "]\n")
	}
	return b.String()
}()

var badManifests = map[string]struct{ text, says string }{
	"empty":             {"", "f.yaml: the file holds no object"},
	"only comments":     {"# nothing\n---\n# either\n", "f.yaml: the file holds no object"},
	"not YAML":          {podYAML("p") + "---\n{[\n", "f.yaml, document 2: not valid YAML, near line 1"},
	"half a document":   {podYAML("p")[:40], "f.yaml, document 1"},
	"endless quantity":  {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: p}\nspec: {capacity: {storage: \"1e-99999999\"}}\n", "spec.capacity.storage: Invalid value"},
	"a word":            {"hello\n", "document 1: not an object, but a string"},
	"other version":     {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n", `(Deployment/d): apiVersion: Unsupported value: "apps/v1"`},
	"other kind":        {"apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", `(Service/s): kind: Unsupported value: "Service"`},
	"unknown field":     {podYAML("p", "{name: x, persistantVolumeClaim: {}}"), `(Pod/p): strict decoding error: unknown field "spec.volumes[0].persistantVolumeClaim"`},
	"field twice":       {podYAML("p", "{name: x, name: z}"), `key "name" already set`},
	"wrong type":        {podYAML("p", "{name: 5}"), `name: Invalid value: not a number`},
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
	"key twice":         {configYAML + "binaryData: {a.conf: eA==}\n", `data[a.conf]: Invalid value: it is in binaryData`},
	"too much data":     {strings.Replace(configYAML, "text", strings.Repeat("x", maxContent+1), 1), "data: Too long"},
	"bomb":              {bomb, "document 1: not valid YAML"},
	"too many":          {strings.Repeat("---\n# x\n", maxDocuments+1), "a file has at most"},
	"secret, base64":    {strings.Replace(secretYAML, "stringData: {key: sesame}", "data: {key: sesame!}", 1), "not a Secret"},
	"secret, wrong key": {strings.Replace(secretYAML, "stringData", "sesame", 1), "not a Secret"},
	"secret, key":       {strings.Replace(secretYAML, "key: sesame", "sesame=: key", 1), "data: Invalid value: a key that is none"},
	"secret, in a list": {"- kind: Secret\n  stringData: {key: sesame}\n", "document 1: not an object, but a list"},
	"secret, alone":     {"sesame\n", "document 1: not an object, but a string"},
	"secret, alias":     {strings.Replace(secretYAML, "sesame", "*sesame", 1), "document 1: not valid YAML"},
	"secret, tag":       {strings.Replace(secretYAML, "sesame", "!!float sesame", 1), "document 1: not valid YAML"},
	"secret, dashes":    {secretYAML + "-----BEGIN sesame\n", "invalid separator of documents"},
	"secret, torn":      {secretYAML[:len(secretYAML)-2], "document 1: not valid YAML, near line 5 of the document"},
	"secret, type":      {strings.Replace(secretYAML, "{key: sesame}", "sesame", 1), "stringData: Invalid value"},
}

func TestBadManifests(t *testing.T) {
	for name, test := range badManifests {
		t.Run(name, func(t *testing.T) {
			_, err := parse("f.yaml", []byte(test.text))
			require.ErrorContains(t, err, test.says)
			require.ErrorAs(t, err, new(Problem))
			require.NotContains(t, err.Error(), "sesame")
			require.NotRegexp(t, `[\pC\p{Zl}\p{Zp}]`, err.Error(), "not one line")
			require.Less(t, len(err.Error()), 1000)
		})
	}
}

func TestGoodManifests(t *testing.T) {
	for name, text := range map[string]string{
		"all kinds": podYAML("p", "{name: x}") + claimYAML + volumeYAML + configYAML + secretYAML,
		"comments":  "# a\n---\n---\n# b\n" + podYAML("p"),
		"JSON":      `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "binaryData": {"b": "eA=="}}`,
	} {
		documents, err := parse("f.yaml", []byte(text))
		require.NoError(t, err, name)
		for _, d := range documents {
			if _, ok := d.object.(*v1.PersistentVolume); !ok {
				require.Equal(t, "default", d.object.GetNamespace())
			}
		}
	}
	documents, err := parse("f.yaml", []byte(secretYAML))
	require.NoError(t, err)
	require.Equal(t, "sesame", string(documents[0].object.(*v1.Secret).Data["key"]))
}

// TestLastLine: one of any length that does not end is not lost.
func TestLastLine(t *testing.T) {
	const before, after = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "`, `"}}`
	for _, size := range []int{4095, 4096, 4097, 8192, 65536} {
		value := strings.Repeat("x", size-len(before)-len(after))
		documents, err := parse("f.yaml", []byte(podYAML("p")+"---\n"+before+value+after))
		require.NoError(t, err, size)
		require.Len(t, documents, 2, size)
		require.Equal(t, value, documents[1].object.(*v1.ConfigMap).Data["a"], size)
	}
	documents, err := parse("f.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: |+\n    text\n"))
	require.NoError(t, err)
	require.Equal(t, "text\n", documents[0].object.(*v1.ConfigMap).Data["a"])
}

// FuzzManifests: whatever is in a file, nothing panics, and what is in order can be put
// together with itself.
func FuzzManifests(f *testing.F) {
	for name, bad := range badManifests {
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
		all := collect([]file{{documents: documents}, {documents: documents}}, "node")
		require.NotEmpty(t, all.problems)
		for _, pod := range all.pods {
			require.NotEmpty(t, pod.UID)
		}
	})
}
