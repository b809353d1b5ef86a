package reading

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// A ChangeSet collects changed objects, each once. The zero value is empty.
type ChangeSet struct {
	Everything bool // any object may have changed
	Pods       map[types.UID]bool
	Refs       map[Ref]bool // claims and persistent volumes
}

// IsEmpty reports whether nothing has changed.
func (c *ChangeSet) IsEmpty() bool { return !c.Everything && len(c.Pods) == 0 && len(c.Refs) == 0 }

// AddPods adds pods.
func (c *ChangeSet) AddPods(uids ...types.UID) {
	if c.Pods == nil {
		c.Pods = make(map[types.UID]bool, len(uids))
	}
	for _, uid := range uids {
		c.Pods[uid] = true
	}
}

// AddRefs adds objects of any kind.
func (c *ChangeSet) AddRefs(refs ...Ref) {
	if c.Refs == nil {
		c.Refs = make(map[Ref]bool, len(refs))
	}
	for _, ref := range refs {
		if ref.Kind == Pod {
			c.AddPods(types.UID(ref.Name))
		} else {
			c.Refs[ref] = true
		}
	}
}

// Merge adds the objects of another set.
func (c *ChangeSet) Merge(other ChangeSet) {
	c.Everything = c.Everything || other.Everything
	for uid := range other.Pods {
		c.AddPods(uid)
	}
	for ref := range other.Refs {
		c.AddRefs(ref)
	}
}

// PendingChanges are the reported changes that the loop has yet to read. The zero value is
// empty. All methods are safe for concurrent use.
type PendingChanges struct {
	mu  sync.Mutex // held for moments, and never along with another lock
	new ChangeSet
}

// Add adds changes.
func (p *PendingChanges) Add(changes ChangeSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.new.Merge(changes)
}

// Drain returns the changes added since the last call.
func (p *PendingChanges) Drain() (new ChangeSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	new, p.new = p.new, ChangeSet{}
	return new
}
