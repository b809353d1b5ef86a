package manager

import "errors"

// eventsOf returns what people are told of an operation. The caller holds mu.
func (l *loop) eventsOf(out outcome, before error) []Event {
	want := l.want.volumes[out.volume]
	if isUp(out.verb) && out.verb != setUp && len(want.podsOrNone()) > 0 {
		if out.err != nil {
			return l.eventsForAll(want, out)
		}
		l.forgetTold(want, out)
	}
	if event, ok := eventOf(out, before); ok {
		return []Event{event}
	}
	return nil
}

// eventsForAll: of what fails for all pods each is told, unless it has been told the same;
// those that only read not of what keeps those that write waiting.
func (l *loop) eventsForAll(want *desiredVolume, out outcome) (events []Event) {
	text, forWriters := out.err.Error(), errors.Is(out.err, errForReaders)
	for key, pod := range want.pods.all() {
		at := failureKey{out.volume, key}
		if l.told[at] == text || forWriters && !want.isWriter(key) {
			continue
		}
		l.told[at] = text
		out.job.pod, out.outer, out.spec = pod.pod, pod.outer, pod.spec
		if event, ok := eventOf(out, nil); ok {
			events = append(events, event)
		}
	}
	return events
}

func (l *loop) forgetTold(want *desiredVolume, out outcome) {
	for key := range want.pods.all() {
		delete(l.told, failureKey{out.volume, key})
	}
}
