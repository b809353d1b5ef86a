package sidecar

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/volume"
)

func node(name string, labels ...string) driverNode {
	n := driverNode{name: name, labels: map[string]string{}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		n.keys = append(n.keys, key)
		n.labels[key] = value
	}
	return n
}

func allow(expressions ...string) (s v1.TopologySelectorTerm) {
	for _, e := range expressions {
		key, values, _ := strings.Cut(e, "=")
		s.MatchLabelExpressions = append(s.MatchLabelExpressions, v1.TopologySelectorLabelRequirement{Key: key, Values: strings.Split(values, ",")})
	}
	return s
}

// TestRequirements: the topologies that a volume may have, and prefers, in their order.
func TestRequirements(t *testing.T) {
	north, south, incomplete := node("n", "zone=north"), node("s", "zone=south"), driverNode{name: "i", keys: []string{"zone"}}
	rack := node("r", "rack=1", "zone=north")
	type terms = []v1.TopologySelectorTerm
	for _, c := range []struct {
		name string
		in   topologyInputs
		want string
		err  string
	}{
		{name: "nothing is required", in: topologyInputs{nodes: []driverNode{north}}},
		{name: "no nodes", in: topologyInputs{immediate: true}},
		{name: "all nodes", in: topologyInputs{immediate: true, nodes: []driverNode{south, north, south, incomplete}, claim: "a"},
			want: "requisite=[{segments={zone=north}} {segments={zone=south}}] preferred=[{segments={zone=north}} {segments={zone=south}}]"},
		{name: "claims of a StatefulSet", in: topologyInputs{immediate: true, nodes: []driverNode{south, north}, claim: "a-1"},
			want: "requisite=[{segments={zone=north}} {segments={zone=south}}] preferred=[{segments={zone=south}} {segments={zone=north}}]"},
		{name: "allowed", in: topologyInputs{allowed: terms{allow("zone=b,a"), allow("zone=a", "rack=1,2")}, claim: "a-2"},
			want: "requisite=[{segments={rack=1 zone=a}} {segments={rack=2 zone=a}} {segments={zone=a}} {segments={zone=b}}] preferred=[{segments={zone=a}} {segments={zone=b}} {segments={rack=1 zone=a}} {segments={rack=2 zone=a}}]"},
		{name: "impossible combination", in: topologyInputs{allowed: terms{allow("zone=a", "zone=b")}}},
		{name: "selected", in: topologyInputs{selected: &south, nodes: []driverNode{north, south, rack}},
			want: "requisite=[{segments={zone=north}} {segments={zone=south}}] preferred=[{segments={zone=south}} {segments={zone=north}}]"},
		{name: "selected, and not in the cache", in: topologyInputs{selected: &south},
			want: "requisite=[{segments={zone=south}}] preferred=[{segments={zone=south}}]"},
		{name: "selected among allowed", in: topologyInputs{selected: &rack, allowed: terms{allow("zone=east,north")}},
			want: "requisite=[{segments={zone=east}} {segments={zone=north}}] preferred=[{segments={zone=north}} {segments={zone=east}}]"},
		{name: "strict", in: topologyInputs{selected: &rack, strict: true, allowed: terms{allow("zone=east,north")}},
			want: "requisite=[{segments={rack=1 zone=north}}] preferred=[{segments={rack=1 zone=north}}]"},
		{name: "not allowed", in: topologyInputs{selected: &south, allowed: terms{allow("zone=east,north")}}, err: "does not allow"},
		{name: "incomplete", in: topologyInputs{selected: &incomplete}, err: "lacks the topology"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := requirementOf(c.in)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorIs(t, err, volume.ErrReschedule)
				return
			}
			require.NoError(t, err)
			if c.want == "" {
				require.Nil(t, got)
				return
			}
			require.Equal(t, c.want, csitest.Text(got))
		})
	}
}

// TestTooManyTerms: a class with many topologies, and one with so many combinations of labels on the way to few
// topologies, are refused.
func TestTooManyTerms(t *testing.T) {
	values := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint(i))
		}
		return strings.Join(all, ",")
	}
	for _, allowed := range [][]v1.TopologySelectorTerm{
		{allow("a="+values(5000), "a=none of them")},
		{allow("a=" + values(1000)), allow("b=" + values(1000)), allow("c=" + values(1000)), allow("d=" + values(1000)), allow("e=" + values(1000))},
	} {
		_, err := requirementOf(topologyInputs{allowed: allowed})
		require.ErrorIs(t, err, volume.ErrInfeasible)
	}
}

// FuzzRequirement: any topology of classes and nodes gives a requirement that the driver can fulfil: its preferred
// topologies are requisite ones, and a selected node reaches the first choice.
func FuzzRequirement(f *testing.F) {
	f.Add(`[{"matchLabelExpressions":[{"key":"zone","values":["a","b"]}]}]`, `{"zone":"a"}`, "data-1", true, true)
	f.Add(`[]`, `{}`, "", false, false)
	f.Fuzz(func(t *testing.T, allowedText, labelsText, claim string, strict, selects bool) {
		var allowed []v1.TopologySelectorTerm
		var labels map[string]string
		if json.Unmarshal([]byte(allowedText), &allowed) != nil || json.Unmarshal([]byte(labelsText), &labels) != nil {
			return
		}
		in := topologyInputs{claim: claim, allowed: allowed, strict: strict, immediate: true}
		n := driverNode{name: "n", labels: labels}
		for _, s := range newTerm(labels) {
			n.keys = append(n.keys, s.key)
		}
		in.nodes = []driverNode{n}
		if selects {
			in.selected = &n
		}
		got, err := requirementOf(in)
		if err != nil || got == nil {
			return
		}
		require.ElementsMatch(t, got.Requisite, got.Preferred)
		require.NotEmpty(t, got.Preferred)
		if own, _ := n.term(); selects {
			require.True(t, own.includes(newTerm(got.Preferred[0].Segments)))
		}
	})
}

// FuzzSecretTemplate: for any text of a tenant, the result is the name of an object in a namespace that the tenant
// does not choose.
func FuzzSecretTemplate(f *testing.F) {
	f.Add("${pvc.name}-${pvc.annotations['k']}", "${pvc.namespace}", "data", "team", "value")
	f.Add("${pv.name}", "storage", "data", "team", "${pvc.name}")
	f.Add("${pvc.annotations['k']}", "${", "data", "team", "../root")
	f.Fuzz(func(t *testing.T, name, ns, claimName, claimNamespace, annotation string) {
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName, Namespace: claimNamespace, Annotations: map[string]string{"k": annotation}}}
		ref, err := secretTemplate{name, ns}.resolve("pvc-1", claim)
		if err != nil {
			require.Nil(t, ref)
			require.Less(t, len(err.Error()), 1024)
			return
		}
		if ref == nil {
			require.Empty(t, name+ns)
			return
		}
		require.Regexp(t, `^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`, ref.Name)
		require.Regexp(t, `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, ref.Namespace)
		other, err := secretTemplate{"n", ns}.resolve("pvc-1", &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace}})
		require.NoError(t, err)
		require.Equal(t, ref.Namespace, other.Namespace, "name and annotations of the claim do not choose the namespace")
	})
}
