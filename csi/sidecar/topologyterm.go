package sidecar

import (
	"cmp"
	"maps"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
)

// A segment is one key of a topology with its value.
type segment struct{ key, value string }

// A term is the segments of a topology, sorted by their keys.
type term []segment

func newTerm(segments map[string]string) (t term) {
	for _, key := range slices.Sorted(maps.Keys(segments)) {
		t = append(t, segment{key, segments[key]})
	}
	return t
}

func (t term) compare(other term) int {
	return slices.CompareFunc(t, other, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value))
	})
}

// includes reports whether all segments of part are segments of t.
func (t term) includes(part term) bool {
	for _, s := range part {
		if !slices.Contains(t, s) {
			return false
		}
	}
	return true
}

func (t term) labels() map[string]string {
	all := make(map[string]string, len(t))
	for _, s := range t {
		all[s.key] = s.value
	}
	return all
}

// distinct sorts terms, and drops repeated ones.
func distinct(terms []term) []term {
	slices.SortFunc(terms, term.compare)
	return slices.CompactFunc(terms, func(a, b term) bool { return a.compare(b) == 0 })
}

func messages(terms []term) (all []*csipb.Topology) {
	for _, t := range terms {
		all = append(all, &csipb.Topology{Segments: t.labels()})
	}
	return all
}

// affinityOf returns the node affinity of a volume with these topologies; nil: every node reaches it.
func affinityOf(accessible []*csipb.Topology) *v1.VolumeNodeAffinity {
	required := &v1.NodeSelector{}
	for _, topology := range accessible {
		var of v1.NodeSelectorTerm
		for _, s := range newTerm(topology.GetSegments()) {
			of.MatchExpressions = append(of.MatchExpressions, v1.NodeSelectorRequirement{
				Key: s.key, Operator: v1.NodeSelectorOpIn, Values: []string{s.value},
			})
		}
		if len(of.MatchExpressions) > 0 { // an empty term selects no node
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, of)
		}
	}
	if len(required.NodeSelectorTerms) == 0 {
		return nil
	}
	return &v1.VolumeNodeAffinity{Required: required}
}
