package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/examples/internal/container"
	"github.com/volumekit/volumekit/internal/cli"
	"k8s.io/apimachinery/pkg/types"
)

// podWith is a pod with a claim for each volume.
func podWith(kind string, claims ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  volumes:\n")
	for _, name := range claims {
		switch kind {
		case "claim":
			b.WriteString("  - {name: v-" + name + ", persistentVolumeClaim: {claimName: " + name + "}}\n")
		case "template":
			b.WriteString("  - {name: v-" + name + ", ephemeral: {volumeClaimTemplate: {spec: {volumeName: " + name + "}}}}\n")
		}
	}
	return b.String()
}

func podWithVolume(volume string) string {
	return podWith("") + "  - " + volume + "\n"
}

func claimFor(name, pv string, more ...string) string {
	return "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: " + name + "}\nspec:\n  volumeName: " + pv + "\n" +
		lines(more)
}

func diskAt(name, path string, more ...string) string {
	return "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: " + name + "}\nspec:\n  local: {path: " + path + "}\n" +
		lines(more)
}

// lines are further ones of a spec.
func lines(more []string) string {
	var b strings.Builder
	for _, line := range more {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

// badManifests are refused, each with a line that says this.
var badManifests = map[string]struct{ text, says string }{
	"quantity":            {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: p}\nspec: {capacity: {storage: 10 GB}}\n", "spec.capacity.storage: Invalid value: not a quantity"},
	"limit":               {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {limits: {memory: much}}}]}\n", "spec.containers[0].resources.limits.memory: Invalid value: not a quantity"},
	"endless quantity":    {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: p}\nspec: {capacity: {storage: \"1e-99999999\"}}\n", "spec.capacity.storage: Invalid value"},
	"empty":               {"", "test.yaml: kind: Required value"},
	"only comments":       {"# nothing\n---\n# either\n", "kind: Required value"},
	"no pod":              {diskAt("one", "/x"), "kind: Required value"},
	"two pods":            {podWith("claim", "x") + "---\n" + podWith("claim", "x"), "document 2 (Pod/p): kind: Forbidden"},
	"not YAML":            {podWith("claim", "x") + "---\n{[\n", "document 2: not valid YAML"},
	"tab":                 {"a:\n\tb: c\n", "document 1: not valid YAML, near line 2"},
	"separator":           {podWith("claim", "x") + "--- and\n", "document 1: invalid separator of documents"},
	"a word":              {"hello\n", "document 1: not an object, but a string"},
	"a list":              {"- a\n- b\n", "document 1:"},
	"secret, in a list":   {"- kind: Secret\n  stringData: {key: hunter2}\n", "document 1: not an object, but a list"},
	"secret, alias":       {"kind: Secret\nstringData: {key: *hunter2}\n", "document 1: not valid YAML"},
	"secret, dashes":      {"-----BEGIN hunter2\n", "invalid separator of documents"},
	"no kind":             {"apiVersion: v1\n", `kind: Unsupported value: ""`},
	"no version":          {"kind: Pod\n", `apiVersion: Unsupported value: ""`},
	"other version":       {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n", `(Deployment/d): apiVersion: Unsupported value: "apps/v1"`},
	"other kind":          {"apiVersion: v1\nkind: Service\nmetadata: {name: s}\n", `(Service/s): kind: Unsupported value: "Service"`},
	"unknown field":       {podWithVolume("{name: x, persistantVolumeClaim: {}}"), `(Pod/p): strict decoding error: unknown field "spec.volumes[0].persistantVolumeClaim"`},
	"field twice":         {podWithVolume("{name: x, name: z}"), `key "name" already set`},
	"wrong type":          {podWithVolume("{name: x}\n  - {name: 5}"), `spec.volumes[1].name: Invalid value: 5: should be a string`},
	"wrong type, list":    {"apiVersion: v1\nkind: Pod\nspec: {volumes: all}\n", `spec.volumes: Invalid value: "all": should be a list`},
	"no name":             {"apiVersion: v1\nkind: Pod\nspec: {}\n", "metadata.name: Required value"},
	"bad name":            {"apiVersion: v1\nkind: Pod\nmetadata: {name: ../x}\n", `metadata.name: Invalid value: "../x"`},
	"bad namespace":       {"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: a/b}\n", `metadata.namespace: Invalid value: "a/b"`},
	"bad UID":             {"apiVersion: v1\nkind: Pod\nmetadata: {name: x, uid: a/b}\n", `metadata.uid: Invalid value: "a/b"`},
	"namespaced PV":       {podWith("claim", "x") + strings.Replace(diskAt("one", "/x"), "{name: one", "{namespace: ns, name: one", 1), `(PersistentVolume/one): metadata.namespace: Invalid value: "ns"`},
	"bad volume name":     {podWithVolume(`{name: "a\e[31m\nb"}`), "spec.volumes[0].name: Invalid value"},
	"volume name twice":   {podWithVolume("{name: x}\n  - {name: x}"), `spec.volumes[1].name: Duplicate value: "x"`},
	"no volumes":          {"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "spec.volumes: Required value"},
	"PV twice":            {podWith("claim", "x") + diskAt("one", "/x") + diskAt("one", "/y"), `document 3 (PersistentVolume/one): metadata.name: Duplicate value: "one"`},
	"claim twice":         {podWith("claim", "x") + claimFor("x", "one") + claimFor("x", "one"), `metadata.name: Duplicate value: "x"`},
	"no plugin":           {podWithVolume("{name: x, cephfs: {monitors: [a]}}"), `(Pod/p): spec.volumes[0].cephfs: volume "x" of kind cephfs: no volume plugin matched`},
	"host path":           {podWithVolume("{name: x, hostPath: {path: /etc}}"), `spec.volumes[0].hostPath.path: Invalid value: "/etc"`},
	"secret, not base64":  {podWithVolume("{name: x, emptyDir: {}}") + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: \"*hunter2*\"}\n", `document 2 (Secret/s): not a Secret`},
	"two of a name":       {podWithVolume("{name: x, emptyDir: {}}") + strings.Repeat("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", 2), `document 3 (ConfigMap/c): metadata.name: Duplicate value: "c"`},
	"trust bundle":        {podWithVolume("{name: x, projected: {sources: [{clusterTrustBundle: {name: ca, path: ca}}]}}"), `(Pod/p): spec.volumes[0].projected.sources[0].clusterTrustBundle: Forbidden`},
	"certificate":         {podWithVolume("{name: x, projected: {sources: [{podCertificate: {signerName: example.com/a, keyType: ED25519, keyPath: key}}]}}"), `spec.volumes[0].projected.sources[0].podCertificate`},
	"secret's name":       {podWithVolume("{name: x, secret: {secretName: A}}"), `(Pod/p): spec.volumes[0].secret.secretName: Invalid value`},
	"two sources":         {podWithVolume("{name: x, emptyDir: {}, nfs: {server: a, path: /b}}"), `spec.volumes[0]: Invalid value`},
	"two claims":          {podWithVolume("{name: x, persistentVolumeClaim: {claimName: a}, ephemeral: {}}"), `spec.volumes[0].ephemeral: Forbidden`},
	"no template":         {podWithVolume("{name: x, ephemeral: {}}"), "spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"},
	"cephfs PV":           {podWith("template", "one") + strings.Replace(diskAt("one", "/x"), "local: {", "cephfs: {monitors: [s], ", 1), `(PersistentVolume/one): spec.cephfs: persistent volume "one" of kind cephfs: no volume plugin matched`},
	"missing claim":       {podWith("claim", "x"), `spec.volumes[0].persistentVolumeClaim.claimName: Invalid value: "x"`},
	"claim elsewhere":     {podWith("claim", "x") + strings.Replace(claimFor("x", "one"), "{name", "{namespace: other, name", 1), `in namespace default, only in other`},
	"unbound claim":       {podWith("claim", "x") + claimFor("x", `""`), "(PersistentVolumeClaim/x): spec.volumeName: Required value"},
	"missing PV":          {podWith("claim", "x") + claimFor("x", "one"), `(PersistentVolumeClaim/x): spec.volumeName: Invalid value: "one"`},
	"missing PV, inline":  {podWith("template", "one"), `(Pod/p): spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeName: Invalid value: "one"`},
	"PV of another":       {podWith("claim", "x") + claimFor("x", "one") + diskAt("one", "$DIR/disks/one", "claimRef: {namespace: default, name: other}"), "claimRef to default/other, not to default/x"},
	"PV of an older one":  {podWith("claim", "x") + strings.Replace(claimFor("x", "one"), "{name", "{uid: new, name", 1) + diskAt("one", "$DIR/disks/one", "claimRef: {namespace: default, name: x, uid: old}"), "claimRef to default/x with UID old"},
	"two PVs for it":      {podWith("claim", "x") + claimFor("x", `""`) + diskAt("one", "/a", "claimRef: {name: x}") + diskAt("two", "/b", "claimRef: {name: x}"), "several PersistentVolumes is default/x: one, two"},
	"one PV, two volumes": {podWith("template", "one", "one") + diskAt("one", "$DIR/disks/one"), `spec.volumes[1]`},
	"volume mode":         {podWith("claim", "x") + claimFor("x", "one", "volumeMode: Block") + diskAt("one", "$DIR/disks/one"), `spec.volumeMode: Invalid value: "Block": PersistentVolume one has Filesystem`},
	"block":               {podWith("claim", "x") + claimFor("x", "one", "volumeMode: Block") + diskAt("one", "$DIR/disks/one", "volumeMode: Block"), "(PersistentVolume/one): spec.volumeMode: Forbidden: an in-memory kernel has no block devices"},
	"access modes":        {podWith("claim", "x") + claimFor("x", "one", "accessModes: [ReadWriteMany]") + diskAt("one", "$DIR/disks/one", "accessModes: [ReadWriteOnce]"), `spec.accessModes: Invalid value: "ReadWriteMany": PersistentVolume one has ReadWriteOnce`},
	"relative path":       {podWith("template", "one") + diskAt("one", "disks/one"), `(PersistentVolume/one): spec.local.path: Invalid value: "disks/one": the path must be absolute`},
	"no path":             {podWith("template", "one") + diskAt("one", `""`), `spec.local.path: Required value`},
	"dot dot":             {podWith("template", "one") + diskAt("one", "$DIR/disks/../disks/one"), `spec.local.path: Invalid value: "$DIR/disks/../disks/one"`},
	"not allowed":         {podWith("template", "one") + diskAt("one", "/etc"), `spec.local.path: Invalid value: "/etc": must be below`},
	"placeholder":         {podWith("template", "one") + diskAt("one", `"${ROOT}/disks/a"`), `spec.local.path: Invalid value: "${ROOT}/disks/a"`},
	"missing path":        {podWith("template", "one") + diskAt("one", "$DIR/disks/none"), `spec.local.path: Invalid value: "$DIR/disks/none": no such directory`},
	"symbolic link":       {podWith("template", "one") + diskAt("one", "$DIR/disks/link"), `spec.local.path: Invalid value: "$DIR/disks/link": a symbolic link`},
	"file":                {podWith("template", "one") + diskAt("one", "$DIR/disks/file"), `spec.local.path: Invalid value: "$DIR/disks/file": not a directory`},
	"bind option":         {podWith("template", "one") + diskAt("one", "$DIR/disks/one", "mountOptions: [noexec, bind]"), `(PersistentVolume/one): spec.mountOptions: Options[1] "bind"`},
	"second one is bad":   {podWith("template", "one", "two") + diskAt("one", "$DIR/disks/one") + diskAt("two", "$DIR/disks/two"), `document 3 (PersistentVolume/two): spec.local.path`},
}

func TestBuiltin(t *testing.T) {
	for _, b := range []base{"/base", `/it's: "here" # \\`} {
		m, err := parse(builtinName, builtinBelow(b))
		require.NoError(t, err)
		all, err := m.volumes()
		require.NoError(t, err)
		require.Len(t, all, 9)
		require.Equal(t, "data", all[0].Name)
		require.Equal(t, "disk-a", all[0].Spec.Name())
		require.False(t, isReadOnly(all[0]))
		require.Equal(t, "config", all[1].Name)
		require.Equal(t, "disk-b", all[1].Spec.Name())
		require.True(t, all[1].Spec.ReadOnly)
		var paths []string
		for _, v := range all {
			if path, ok := container.Source(v.Spec); ok {
				paths = append(paths, path)
			}
		}
		require.Equal(t, b.builtinDisks(), paths)
	}
}

func isReadOnly(v podVolume) bool { return v.args.ReadOnly || v.Spec.IsReadOnly() }

func TestGoodManifests(t *testing.T) {
	for name, test := range map[string]struct {
		text     string
		readOnly bool
	}{
		"by name":          {podWith("claim", "x") + claimFor("x", "one") + diskAt("one", "/a"), false},
		"by reference":     {podWith("claim", "x") + claimFor("x", `""`) + diskAt("one", "/a", "claimRef: {namespace: default, name: x}"), false},
		"both":             {podWith("claim", "x") + claimFor("x", "one") + diskAt("one", "/a", "claimRef: {name: x, uid: u}"), false},
		"template":         {podWith("template", "one") + diskAt("one", "/a"), false},
		"template, by ref": {podWithVolume("{name: x, ephemeral: {volumeClaimTemplate: {spec: {}}}}") + diskAt("one", "/a", "claimRef: {name: p-x}"), false},
		"any order":        {diskAt("one", "/a") + claimFor("x", "one") + "---\n" + podWith("claim", "x"), false},
		"comments":         {"# a\n---\n---\n# b\n" + podWith("template", "one") + "---\n" + diskAt("one", "/a"), false},
		"read-only claim":  {podWithVolume("{name: x, persistentVolumeClaim: {claimName: x, readOnly: true}}") + claimFor("x", "one") + diskAt("one", "/a"), true},
		"read-only pod":    {podWith("template", "one") + "  containers: [{name: c, volumeMounts: [{name: v-one, mountPath: /x, readOnly: true}]}]\n" + diskAt("one", "/a"), true},
		"read-only option": {podWith("template", "one") + diskAt("one", "/a", "mountOptions: [ro]"), true},
	} {
		m, err := parse("test.yaml", []byte(test.text))
		require.NoError(t, err, name)
		all, err := m.volumes()
		require.NoError(t, err, name)
		require.Len(t, all, 1, name)
		require.Equal(t, "one", all[0].Spec.Name(), name)
		require.Equal(t, test.readOnly, isReadOnly(all[0]), name)
		require.Equal(t, types.UID("default_p"), m.pod.UID, name)
	}
}

// FuzzManifest checks that no manifest causes a panic, and that each error fits into a line.
func FuzzManifest(f *testing.F) {
	f.Add(string(builtin))
	for _, bad := range badManifests {
		f.Add(bad.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parse("test.yaml", []byte(text))
		if err == nil {
			_, err = m.volumes()
		}
		if err != nil {
			line := cli.OneLine(err.Error())
			require.NotEmpty(t, line)
			require.NotContains(t, line, "\n")
			require.LessOrEqual(t, len(line), 803)
		}
	})
}
