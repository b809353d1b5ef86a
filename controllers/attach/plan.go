package attach

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An attachment is the state of a volume on a node.
type attachment int

const (
	detached  attachment = iota
	attaching            // the driver has not reported success
	attached
	detaching // the VolumeAttachment is being deleted
	uncertain // attached or not
	foreign   // by a VolumeAttachment with another name: another program attaches and detaches
)

// A reporting is a change of node.status.volumesAttached that has not been written.
type reporting int

const (
	noReporting reporting = iota
	adding
	removing
)

// A view has all that a plan for a volume depends on.
type view struct {
	id           v1.UniqueVolumeName
	isExclusive  bool // one node may have the volume
	isAttachable bool // the volume has to be attached
	// keepsHolder: the HolderAnnotation stays after a detach, as other objects show where the volume is.
	keepsHolder bool
	now         time.Time
	nodes       []*nodeView // sorted by name
}

// A nodeView is the state of a volume on one node.
type nodeView struct {
	name       types.NodeName
	pods       []*v1.Pod // that use the volume
	state      attachment
	devicePath string
	isHeld     bool // the HolderAnnotation names the node
	// openUntil is the time until which a call of another run of the controller, or a lost call, may
	// attach the volume.
	openUntil   time.Time
	pausedUntil time.Time // of attaches and detaches, after a failure
	isFull      bool      // the node has no room for a volume of the driver

	exists    bool // the Node object
	isManaged bool
	// isReported and isInUse: node.status.volumesAttached and node.status.volumesInUse name the volume.
	isReported, isInUse bool
	reportedPath        string
	pending             reporting
	// isWithdrawn: this run of the controller has seen a state of the node, by a write or a read of the
	// API server, without the volume in volumesAttached, and has not added it since. The state of a living node is from
	// reportsFrom or later.
	isWithdrawn bool
	// reportsFrom is the time from which volumesInUse counts: a new Node object has no list at first.
	// Zero: the node has not reported.
	reportsFrom time.Time
	dead        string    // the cause of a forced detach; "": the node is alive
	deadFrom    time.Time // of a node that is not healthy. Zero: it is healthy
}

func (v *view) isWanted(n *nodeView) bool { return v.isAttachable && len(n.pods) > 0 }

// mayBeAttached reports whether the volume may be attached to the node, now or later.
func (v *view) mayBeAttached(n *nodeView) bool {
	return n.state != detached || v.now.Before(n.openUntil)
}

// A stepKind is a kind of step.
type stepKind int

const (
	stepWithdraw stepKind = iota // remove the volume from volumesAttached
	stepReport                   // add the volume to volumesAttached
	stepDetach
	stepForce   // detach without the report of the node
	stepRelease // remove the node from the HolderAnnotation
	stepAttach
	stepRefuse // report why a wanted volume is not attached
)

// A step is a step of the controller for a volume on a node.
type step struct {
	kind stepKind
	node *nodeView
	// cause is that of a forced detach.
	cause string
	// blockers are the nodes that an exclusive volume may be attached to. None: the node is full.
	blockers []*nodeView
}

// nodesOf returns the nodes of the steps of a kind.
func nodesOf(steps []step, kind stepKind) (names []types.NodeName) {
	for _, s := range steps {
		if s.kind == kind {
			names = append(names, s.node.name)
		}
	}
	return names
}

// A planner collects the steps for a volume.
type planner struct {
	*view
	steps  []step
	wakeAt time.Time
}

// plan returns the next steps for a volume, and the time of the next turn if no change causes one before.
// A volume on a node passes these states:
//
//	             attach                     driver                   report
//	detached ------------> attaching ----------------> attached ----------------> attached, reported
//	 ^  ^                   |   ^ a plugin: uncertain    |  ^                          |
//	 |  |  detach           |   '-- while it is called   |  | the detach has failed    | no pod wants it
//	 |  '-------------------+----------------------------'  '-------------.            v
//	 |      driver                    detach                    |         |        withdraw
//	 '----------------- detaching <-------- withdrawn, and not in use <---+------------'
//	                                                            ^
//	                     uncertain (after a restart) --withdraw-'
//
// Detaches come before attaches. A detach requires that a state of the node without the volume in
// volumesAttached has been written or read by this run, and that no later state has the volume in
// volumesInUse, as a node uses only a volume that both lists name. A dead node is not waited for.
func plan(v view) ([]step, time.Time) {
	p := &planner{view: &v}
	for _, n := range v.nodes {
		if !v.isWanted(n) {
			p.leave(n)
		}
	}
	next := p.next()
	for _, n := range v.nodes {
		if v.isWanted(n) {
			p.join(n, next)
		}
	}
	return p.steps, p.wakeAt
}

func (p *planner) add(s step) { p.steps = append(p.steps, s) }

// wake plans a turn at a time. Zero: none.
func (p *planner) wake(at time.Time) {
	if !at.IsZero() && (p.wakeAt.IsZero() || at.Before(p.wakeAt)) {
		p.wakeAt = at
	}
}

// isBefore reports whether it is before a time, and plans a turn then.
func (p *planner) isBefore(at time.Time) bool {
	if !p.now.Before(at) {
		return false
	}
	p.wake(at)
	return true
}

// leave plans the way of a volume away from a node.
func (p *planner) leave(n *nodeView) {
	switch {
	case n.state == foreign || n.exists && !n.isManaged:
		return
	case n.state == detached || n.state == detaching:
		if !p.correct(n) && n.isHeld && !p.keepsHolder && n.state == detached && !p.isBefore(n.openUntil) {
			p.add(step{kind: stepRelease, node: n})
		}
	case p.isBefore(n.pausedUntil):
	case n.exists && !n.isWithdrawn:
		if p.mayProve(n) {
			p.add(step{kind: stepWithdraw, node: n})
		}
	case !p.hasObject(n) && p.isBefore(n.openUntil):
	case p.isUnused(n):
		p.add(step{kind: stepDetach, node: n})
	case n.dead != "":
		p.add(step{kind: stepForce, node: n, cause: n.dead})
	default:
		p.wake(n.deadFrom)
	}
}

// correct plans the removal of an entry in volumesAttached that names a volume without an attachment, or with one
// that ends, and reports whether there is such an entry.
func (p *planner) correct(n *nodeView) bool {
	isFalse := (n.state == detached || n.state == detaching) && (n.isReported || n.pending == adding)
	if isFalse {
		p.add(step{kind: stepWithdraw, node: n})
	}
	return isFalse
}

// mayProve reports whether the volume is to be withdrawn now, by a write or a read of the node: a read before reportsFrom
// would be repeated then.
func (p *planner) mayProve(n *nodeView) bool {
	return n.isReported || n.pending == adding || n.dead != "" || !p.isBefore(n.reportsFrom)
}

// hasObject reports whether a VolumeAttachment shows the volume on a node. A call that comes late creates none
// beside it, and a new one after its end, which is seen.
func (p *planner) hasObject(n *nodeView) bool {
	return p.keepsHolder && (n.state == attached || n.state == attaching)
}

// isUnused reports whether the node has reported that it does not use a withdrawn volume.
func (p *planner) isUnused(n *nodeView) bool {
	return n.exists && !n.isInUse && !n.reportsFrom.IsZero() && !p.isBefore(n.reportsFrom)
}

// join plans the way of a volume to a node. next is the node to attach an exclusive volume to.
func (p *planner) join(n, next *nodeView) {
	switch {
	case !n.exists || !n.isManaged:
	case n.state == attached:
		if !n.isReported || n.pending == removing || n.reportedPath != n.devicePath {
			p.add(step{kind: stepReport, node: n})
		}
	case n.state == detaching:
		p.correct(n)
	case n.state != detached && n.state != uncertain:
	case p.isExclusive && n != next:
		p.refuse(n)
		p.correct(n)
	case n.isFull:
		p.add(step{kind: stepRefuse, node: n})
		p.correct(n)
	case !p.isBefore(n.pausedUntil):
		p.add(step{kind: stepAttach, node: n})
	}
}

// next returns the node that an exclusive volume is to be attached to, nil while the volume may be
// attached to another one.
func (p *planner) next() (next *nodeView) {
	if !p.isExclusive {
		return nil
	}
	for _, n := range p.nodes {
		isCandidate := p.isWanted(n) && n.exists && n.isManaged
		switch {
		case p.mayBeAttached(n) && !(isCandidate && (n.state == uncertain || n.state == detached)):
			return nil
		case p.mayBeAttached(n) && next != nil && p.mayBeAttached(next):
			return nil
		case p.mayBeAttached(n), isCandidate && next == nil:
			next = n
		case isCandidate && !p.mayBeAttached(next) && isOlder(n, next):
			next = n
		}
	}
	return next
}

// isOlder reports whether the oldest pod of a is older than that of b. A node that the volume was
// attached to last comes first.
func isOlder(a, b *nodeView) bool {
	if a.isHeld != b.isHeld {
		return a.isHeld
	}
	return oldest(a).Before(oldest(b))
}

func oldest(n *nodeView) time.Time {
	first := slices.MinFunc(n.pods, func(a, b *v1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return first.CreationTimestamp.Time
}

// refuse reports the nodes for which an exclusive volume is not attached to n. A detach on its way is no
// reason for a report.
func (p *planner) refuse(n *nodeView) {
	var blockers []*nodeView
	for _, other := range p.nodes {
		switch {
		case other == n || !p.mayBeAttached(other):
			continue
		case p.isBefore(other.openUntil):
		}
		if !p.isLeaving(other) {
			blockers = append(blockers, other)
		}
	}
	if len(blockers) > 0 {
		p.add(step{kind: stepRefuse, node: n, blockers: blockers})
	}
}

// isLeaving reports whether a step for the node is under way, or the driver detaches.
func (p *planner) isLeaving(n *nodeView) bool {
	return n.state == detaching || n.state == detached || slices.ContainsFunc(p.steps, func(s step) bool { return s.node == n && s.kind != stepRefuse })
}
