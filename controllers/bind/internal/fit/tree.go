package fit

import (
	"cmp"
	"math/rand/v2"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A position orders the values of a tree: by size, then by name.
type position struct {
	size resource.Quantity
	name string
}

func (p position) compare(other position) int {
	return cmp.Or(p.size.Cmp(other.size), strings.Compare(p.name, other.name))
}

// lastName is above the names of all objects.
const lastName = "\U0010FFFF"

// A tree holds values in the order of their positions. It is a treap: a search tree by position and a
// heap by random priorities, so that its depth is logarithmic for every order of insertion. The zero
// value is empty.
type tree[V any] struct{ root *node[V] }

type node[V any] struct {
	position
	value       V
	priority    uint64
	left, right *node[V]
}

// set adds a value, or replaces the value of its position.
func (t *tree[V]) set(at position, value V) {
	t.remove(at)
	left, right := split(t.root, at)
	added := &node[V]{position: at, value: value, priority: rand.Uint64()}
	t.root = merge(merge(left, added), right)
}

// remove removes the value of a position, if the tree has one.
func (t *tree[V]) remove(at position) {
	link := &t.root
	for *link != nil {
		switch order := at.compare((*link).position); {
		case order < 0:
			link = &(*link).left
		case order > 0:
			link = &(*link).right
		default:
			*link = merge((*link).left, (*link).right)
			return
		}
	}
}

// ascend calls yield for the values from a position on, in their order, until yield returns false.
func (t *tree[V]) ascend(from position, yield func(V) bool) { t.root.ascend(from, yield) }

// descend calls yield for the values down from a position, in reverse order, until yield returns false.
func (t *tree[V]) descend(from position, yield func(V) bool) { t.root.descend(from, yield) }

func (n *node[V]) ascend(from position, yield func(V) bool) (goesOn bool) {
	if n == nil {
		return true
	}
	if from.compare(n.position) > 0 {
		return n.right.ascend(from, yield)
	}
	return n.left.ascend(from, yield) && yield(n.value) && n.right.ascend(from, yield)
}

func (n *node[V]) descend(from position, yield func(V) bool) (goesOn bool) {
	if n == nil {
		return true
	}
	if from.compare(n.position) < 0 {
		return n.left.descend(from, yield)
	}
	return n.right.descend(from, yield) && yield(n.value) && n.left.descend(from, yield)
}

// split divides a tree into the positions below at, and the others.
func split[V any](n *node[V], at position) (below, others *node[V]) {
	if n == nil {
		return nil, nil
	}
	if n.compare(at) < 0 {
		n.right, others = split(n.right, at)
		return n, others
	}
	below, n.left = split(n.left, at)
	return below, n
}

// merge joins two trees. All positions of left are below those of right.
func merge[V any](left, right *node[V]) *node[V] {
	switch {
	case left == nil:
		return right
	case right == nil:
		return left
	case left.priority > right.priority:
		left.right = merge(left.right, right)
		return left
	}
	right.left = merge(left, right.left)
	return right
}
