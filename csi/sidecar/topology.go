package sidecar

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// topologyInputs are all that the topology of a new volume depends on.
type topologyInputs struct {
	claim     string // name
	allowed   []v1.TopologySelectorTerm
	selected  *driverNode // nil: no node is selected
	nodes     []driverNode
	strict    bool
	immediate bool
}

// mostTerms is the largest number of topologies that a class can allow.
const mostTerms = 1 << 12

// requirementOf returns the topology requirement of a new volume; nil: the volume may be anywhere.
//
//   - With a selected node, the driver prefers the topology of the node. Strict: it may choose no other one.
//   - Without one, the volume may be in the allowed topologies of the class, or in those of all nodes with
//     the driver. Equal claims, as those of a StatefulSet, prefer different ones.
func requirementOf(in topologyInputs) (*csipb.TopologyRequirement, error) {
	allowed, err := allowedTerms(in.allowed)
	if err != nil {
		return nil, err
	}
	if in.selected == nil {
		return in.unselected(allowed), nil
	}
	own, ok := in.selected.term()
	switch {
	case !ok:
		return nil, fmt.Errorf("node %q lacks the topology of the driver: %w", in.selected.name, volume.ErrReschedule)
	case len(allowed) > 0 && !slices.ContainsFunc(allowed, own.includes):
		return nil, fmt.Errorf("the class does not allow the topology of node %q: %w", in.selected.name, volume.ErrReschedule)
	case in.strict:
		return &csipb.TopologyRequirement{Requisite: messages([]term{own}), Preferred: messages([]term{own})}, nil
	case len(allowed) == 0:
		allowed = distinct(append(termsOf(in.nodes, in.selected.keys), own))
	}
	first := slices.IndexFunc(allowed, own.includes)
	return &csipb.TopologyRequirement{Requisite: messages(allowed), Preferred: messages(rotated(allowed, first))}, nil
}

// unselected returns the requirement without a selected node.
func (in topologyInputs) unselected(allowed []term) *csipb.TopologyRequirement {
	if len(allowed) == 0 && in.immediate {
		allowed = termsOf(in.nodes, nil)
	}
	if len(allowed) == 0 {
		return nil
	}
	first := int(spread(in.claim) % uint32(len(allowed)))
	return &csipb.TopologyRequirement{Requisite: messages(allowed), Preferred: messages(rotated(allowed, first))}
}

// rotated returns the terms, beginning with one of them.
func rotated(terms []term, first int) []term {
	return slices.Concat(terms[first:], terms[:first])
}

// spread returns a number that is by 1 larger for each next claim of a StatefulSet, whose names end with
// a number.
func spread(claim string) uint32 {
	base, ordinal := claim, uint64(0)
	if i := strings.LastIndexByte(claim, '-'); i >= 0 {
		if n, err := strconv.ParseUint(claim[i+1:], 10, 32); err == nil {
			base, ordinal = claim[:i], n
		}
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(base)) // never fails
	return hash.Sum32() + uint32(ordinal)
}

// allowedTerms returns the topologies of a class: one for each combination of the values of each term.
func allowedTerms(allowed []v1.TopologySelectorTerm) (all []term, err error) {
	for _, selector := range allowed {
		combinations := []map[string]string{{}}
		for _, expression := range selector.MatchLabelExpressions {
			if len(expression.Values) > mostTerms/len(combinations) {
				return nil, errTooManyTerms
			}
			combinations = withValues(combinations, expression)
			if len(combinations) == 0 {
				break
			}
		}
		for _, segments := range combinations {
			if len(segments) > 0 {
				all = append(all, newTerm(segments))
			}
		}
		if len(all) > mostTerms {
			return nil, errTooManyTerms
		}
	}
	return distinct(all), nil
}

var errTooManyTerms = fmt.Errorf("the class must allow at most %d topologies: %w", mostTerms, volume.ErrInfeasible)

// withValues returns each combination with each value of an expression. A combination with another value of
// the same key is impossible.
func withValues(combinations []map[string]string, expression v1.TopologySelectorLabelRequirement) (all []map[string]string) {
	for _, segments := range combinations {
		for _, value := range expression.Values {
			if has, ok := segments[expression.Key]; ok && has != value {
				continue
			}
			with := map[string]string{expression.Key: value}
			for key, value := range segments {
				with[key] = value
			}
			all = append(all, with)
		}
	}
	return all
}
