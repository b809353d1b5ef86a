package registration

import (
	"cmp"
	"slices"
	"sync"

	"github.com/volumekit/volumekit/csi"
)

// A registry holds the claims whose drivers have answered NodeGetInfo.
type registry struct {
	mu     sync.Mutex // guards all below
	claims map[string][]*registered
	next   uint64 // Registration of the next driver
}

// A registered is a claim in the registry.
type registered struct {
	csi.Driver
	node nodeInfo
	// age orders claims by their sockets: the highest one is effective.
	age uint64
}

// put adds a claim, or replaces the one of the same socket, and gives it a new number.
func (r *registry) put(c *registered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	c.Registration = r.next
	of := slices.DeleteFunc(r.claims[c.Name], func(other *registered) bool { return other.age == c.age })
	of = append(of, c)
	slices.SortFunc(of, func(a, b *registered) int { return cmp.Compare(a.age, b.age) })
	if r.claims == nil {
		r.claims = map[string][]*registered{}
	}
	r.claims[c.Name] = of
}

// remove removes a claim. The next older one becomes effective, with a new number: the driver behind
// it is another one.
func (r *registry) remove(c *registered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.claims[c.Name]
	i := slices.Index(of, c)
	if i < 0 {
		return
	}
	wasEffective := i == len(of)-1
	of = slices.Delete(of, i, i+1)
	if len(of) == 0 {
		delete(r.claims, c.Name)
		return
	}
	r.claims[c.Name] = of
	if wasEffective {
		r.next++
		of[len(of)-1].Registration = r.next
	}
}

// effective returns the effective claim of a driver, or false.
func (r *registry) effective(name string) (registered, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.claims[name]
	if len(of) == 0 {
		return registered{}, false
	}
	return *of[len(of)-1], true
}
