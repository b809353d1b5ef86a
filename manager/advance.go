package manager

import (
	"errors"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// advance returns what is known of a volume after a job. It changes nothing.
func advance(before *actualVolume, out outcome) *actualVolume {
	v := *before
	switch out.verb {
	case attach:
		if v.attached = wentUp(v.attached, out.err); out.err == nil {
			v.devicePath, v.spec = out.devicePath, out.spec
		}
		if v.lastPod.pod == "" {
			v.lastPod = out.firstUser()
		}
	case mountDevice:
		v.device, v.deviceStaysSo = wentUp(v.device, out.err), errors.Is(out.err, errForReaders)
		if v.deviceStaysSo {
			v.device = present
		}
		if v.device != absent {
			v.deviceMountPath, v.lastPod = out.deviceMountPath, out.firstUser()
		}
		if out.err == nil || v.deviceStaysSo {
			v.deviceMount, v.deviceReadOnly = out.mount, out.readOnly
		}
		if out.err == nil || v.device == uncertain {
			v.spec = out.spec // one that was found may lack which volume of its name it is
		}
	case setUp:
		if v.afterSetUp(out); out.err == nil && !v.traits.shared() {
			v.spec = out.spec // as after mountDevice
		}
	case tearDown:
		if out.err != nil {
			v.pods = v.pods.with(out.operation.pod, v.pods.get(out.operation.pod).as(uncertain))
		} else {
			v.pods = v.pods.without(out.operation.pod)
		}
	case expand:
		if out.err == nil {
			v.size = out.size
		}
	case unmountDevice:
		v.device, v.size = wentDown(out.err), nil
		if out.err == nil {
			v.deviceReadOnly, v.deviceStaysSo = false, false
		}
	case detach:
		v.attached = wentDown(out.err)
	}
	return &v
}

func (v *actualVolume) afterSetUp(out outcome) {
	key := out.operation.pod
	var pod actualPod
	if before := v.pods.get(key); before != nil {
		pod = *before
	}
	pod.state, pod.outer = wentUp(pod.state, out.err), out.outer
	if out.err == nil {
		pod.block, pod.revision = out.traits.block, out.revision
		pod.path, pod.mounted, pod.mount = out.path, out.mounted, out.mount
	}
	if pod.state == absent {
		v.pods = v.pods.without(key)
		return
	}
	v.pods = v.pods.with(key, &pod)
}

// wentUp is the state after something was to be brought up.
func wentUp(before state, err error) state {
	switch {
	case err == nil:
		return present
	case volume.KindOf(err) == volume.Uncertain, errors.Is(err, volume.ErrAlreadyMounted):
		return uncertain
	}
	return before
}

// wentDown is the state after something that was there was to be taken down. What is
// left of it nobody knows.
func wentDown(err error) state {
	if err == nil {
		return absent
	}
	return uncertain
}

// with returns a copy with another state of a pod.
func (v *actualVolume) with(key podKey, pod *actualPod) *actualVolume {
	other := *v
	other.pods = v.pods.with(key, pod)
	return &other
}

// as returns a copy in another state.
func (p *actualPod) as(s state) *actualPod {
	other := *p
	other.state = s
	return &other
}

// isNothing reports whether there is nothing that could be taken down.
func (v *actualVolume) isNothing() bool {
	return v.attached == absent && v.device == absent && !v.inUse(podKey{})
}

// during returns what is known of a volume while an operation is under way: what it
// brings up may be there by now, and what it takes down may be gone, though nobody has
// said so.
func (v *actualVolume) during(op operation, pod *v1.Pod) *actualVolume {
	now := *v
	switch {
	case op.verb == attach && v.attached == absent:
		now.attached = uncertain
	case op.verb == mountDevice && v.device == absent:
		now.device, now.lastPod = uncertain, podKey{pod.UID, v.spec.Name()}
	case op.verb == setUp && v.stateOf(op.pod) == absent:
		now.pods = v.pods.with(op.pod, &actualPod{state: uncertain, block: v.traits.block})
	case op.verb == tearDown:
		now.pods = v.pods.with(op.pod, v.pods.get(op.pod).as(uncertain))
	case op.verb == unmountDevice && v.device == present:
		now.device = uncertain
	case op.verb == detach && v.attached == present:
		now.attached = uncertain
	}
	return &now
}
