package manager

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeLabels are the labels of this node.
type nodeLabels struct {
	mu        sync.Mutex // guards all below
	labels    map[string]string
	isChanged bool // since the last drain
}

// set replaces the labels, and reports whether they differ. Nil and empty labels differ.
func (l *nodeLabels) set(labels map[string]string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if maps.Equal(l.labels, labels) && (l.labels == nil) == (labels == nil) {
		return false
	}
	l.labels, l.isChanged = maps.Clone(labels), true
	return true
}

// get returns the labels, which do not change.
func (l *nodeLabels) get() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.labels
}

// drain reports whether the labels have changed since the last call.
func (l *nodeLabels) drain() (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed, l.isChanged = l.isChanged, false
	return changed
}

// SetNodeLabels replaces [Config.NodeLabels]. If the labels differ the manager reads all pods again: it sets up
// the volumes whose node affinity now permits this node, and pods keep the volumes that they have. The labels
// of a node change, for example, when a CSI driver with a topology registers. SetNodeLabels does not block, and
// may be called before and during Run.
func (m *Manager) SetNodeLabels(labels map[string]string) {
	if m.labels.set(labels) {
		m.wakeLoop()
	}
}

// newNode returns this node, with the name and labels that node selectors match.
func newNode(c Config) *v1.Node {
	name, labels := string(c.Plugins.Host().NodeName()), c.NodeLabels
	if labels == nil {
		labels = map[string]string{v1.LabelHostname: name}
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}
