// Package persistent has a map whose changes leave earlier versions unchanged.
//
// A changed map shares all but a few nodes with its predecessor, so that a change costs the
// same for maps of any size, and a goroutine that has a version reads it without a lock
// while another makes the next. It is a hash array mapped trie.
package persistent

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"slices"
)

// A Map is one version. The zero value is empty. A copy costs little and never changes.
type Map[K comparable, V any] struct {
	root *node[K, V]
	size int
}

// Of returns a map with the keys and values of a Go map.
func Of[K comparable, V any](all map[K]V) (m Map[K, V]) {
	for key, value := range all {
		m = m.With(key, value)
	}
	return m
}

const (
	width = 5 // bits of the hash for each level
	depth = 64
)

// A node has a slot for each set bit. Below the last bits of the hash the bitmap is unused:
// keys with equal hashes are in a list.
type node[K comparable, V any] struct {
	bitmap uint32
	slots  []slot[K, V]
}

// A slot has a child, or a key with its value.
type slot[K comparable, V any] struct {
	child *node[K, V]
	key   K
	value V
}

var seed = maphash.MakeSeed()

func hash[K comparable](key K) uint64 { return maphash.Comparable(seed, key) }

// Len returns the number of keys.
func (m Map[K, V]) Len() int { return m.size }

// Get returns the value of a key, or the zero value if the map does not have the key.
func (m Map[K, V]) Get(key K) V {
	value, _ := m.Find(key)
	return value
}

// Find returns the value of a key, and whether the map has the key.
func (m Map[K, V]) Find(key K) (value V, ok bool) {
	h, shift := hash(key), 0
	for n := m.root; n != nil; shift += width {
		at, found := n.index(key, h, shift)
		switch {
		case !found:
			return value, false
		case n.slots[at].child != nil:
		case n.slots[at].key == key:
			return n.slots[at].value, true
		default:
			return value, false
		}
		n = n.slots[at].child
	}
	return value, false
}

// With returns the map with a value for the key.
func (m Map[K, V]) With(key K, value V) Map[K, V] {
	root, added := m.root.with(slot[K, V]{key: key, value: value}, hash(key), 0)
	m.root = root
	if added {
		m.size++
	}
	return m
}

// Without returns the map without the key.
func (m Map[K, V]) Without(key K) Map[K, V] {
	root, removed := m.root.without(key, hash(key), 0)
	if removed {
		m.root = root
		m.size--
	}
	return m
}

// All returns all keys with their values, in no order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { m.root.all(yield) }
}

// Keys returns all keys, in no order.
func (m Map[K, V]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		m.root.all(func(key K, _ V) bool { return yield(key) })
	}
}

// index returns the index of the slot that has the key, or its subtree, or would have it.
func (n *node[K, V]) index(key K, h uint64, shift int) (at int, found bool) {
	if shift >= depth {
		at = slices.IndexFunc(n.slots, func(s slot[K, V]) bool { return s.key == key })
		if at < 0 {
			return len(n.slots), false
		}
		return at, true
	}
	bit := bitOf(h, shift)
	return bits.OnesCount32(n.bitmap & (bit - 1)), n.bitmap&bit != 0
}

func bitOf(h uint64, shift int) uint32 { return 1 << (h >> shift & (1<<width - 1)) }

// with returns a copy with a key added, or with another value.
func (n *node[K, V]) with(s slot[K, V], h uint64, shift int) (changed *node[K, V], added bool) {
	if n == nil {
		n = &node[K, V]{}
	}
	at, found := n.index(s.key, h, shift)
	if !found {
		return n.inserted(at, s, h, shift), true
	}
	switch old := n.slots[at]; {
	case old.child != nil:
		s.child, added = old.child.with(s, h, shift+width)
		s = slot[K, V]{child: s.child}
	case old.key != s.key:
		child, _ := (*node[K, V])(nil).with(old, hash(old.key), shift+width)
		child, added = child.with(s, h, shift+width)
		s = slot[K, V]{child: child}
	}
	return n.replaced(at, s), added
}

func (n *node[K, V]) inserted(at int, s slot[K, V], h uint64, shift int) *node[K, V] {
	slots := make([]slot[K, V], 0, len(n.slots)+1)
	slots = append(append(append(slots, n.slots[:at]...), s), n.slots[at:]...)
	if shift >= depth {
		return &node[K, V]{slots: slots}
	}
	return &node[K, V]{n.bitmap | bitOf(h, shift), slots}
}

func (n *node[K, V]) replaced(at int, s slot[K, V]) *node[K, V] {
	slots := slices.Clone(n.slots)
	slots[at] = s
	return &node[K, V]{n.bitmap, slots}
}

// without returns a copy without a key; nil: the copy is empty.
func (n *node[K, V]) without(key K, h uint64, shift int) (changed *node[K, V], removed bool) {
	if n == nil {
		return nil, false
	}
	at, found := n.index(key, h, shift)
	if !found {
		return n, false
	}
	s := n.slots[at]
	if s.child == nil {
		if s.key != key {
			return n, false
		}
		return n.dropped(at, h, shift), true
	}
	child, removed := s.child.without(key, h, shift+width)
	switch {
	case !removed:
		return n, false
	case child == nil:
		return n.dropped(at, h, shift), true
	case len(child.slots) == 1 && child.slots[0].child == nil:
		return n.replaced(at, child.slots[0]), true
	}
	return n.replaced(at, slot[K, V]{child: child}), true
}

func (n *node[K, V]) dropped(at int, h uint64, shift int) *node[K, V] {
	if len(n.slots) == 1 {
		return nil
	}
	slots := make([]slot[K, V], 0, len(n.slots)-1)
	slots = append(append(slots, n.slots[:at]...), n.slots[at+1:]...)
	if shift >= depth {
		return &node[K, V]{slots: slots}
	}
	return &node[K, V]{n.bitmap &^ bitOf(h, shift), slots}
}

// all calls yield for each key until yield returns false, and reports whether no call did.
func (n *node[K, V]) all(yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	for _, s := range n.slots {
		if s.child != nil && !s.child.all(yield) || s.child == nil && !yield(s.key, s.value) {
			return false
		}
	}
	return true
}
