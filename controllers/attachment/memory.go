package attachment

import (
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An attempt is the state of a VolumeAttachment that only this process has. The zero value is none.
type attempt struct {
	attachment types.UID
	// open is the volume of an Attach whose outcome is unknown. The call is repeated with it. Nil: none.
	open      *v1.PersistentVolume
	isLost    bool   // the storage does not have the volume attached, against the status
	announced string // the last event
}

// attempts are the attempts of VolumeAttachments. The zero value is empty.
type attempts struct {
	mu sync.Mutex
	of map[api.Key]attempt
}

// get returns the attempt of a VolumeAttachment.
func (a *attempts) get(key api.Key, attachment types.UID) attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[key].ofUID(attachment)
}

func (a attempt) ofUID(attachment types.UID) attempt {
	if a.attachment == attachment {
		return a
	}
	return attempt{attachment: attachment}
}

// change changes the attempt of a VolumeAttachment.
func (a *attempts) change(key api.Key, attachment types.UID, change func(*attempt)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.of[key].ofUID(attachment)
	change(&changed)
	a.set(key, changed)
}

// set replaces the attempt of a name. The caller holds mu.
func (a *attempts) set(key api.Key, changed attempt) {
	if a.of == nil {
		a.of = map[api.Key]attempt{}
	}
	if changed == (attempt{attachment: changed.attachment}) {
		delete(a.of, key)
		return
	}
	a.of[key] = changed
}

// setLost records whether the storage has lost an attached volume, and reports whether that is news. It keeps the
// attempt of another VolumeAttachment of the name, and then reports false.
func (a *attempts) setLost(key api.Key, attachment types.UID, isLost bool) (isNews bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.of[key]
	if ok && last.attachment != attachment {
		return false
	}
	isNews = last.isLost != isLost
	last.attachment, last.isLost = attachment, isLost
	a.set(key, last)
	return isNews
}

// forget drops the attempt of a VolumeAttachment that has ended. The attempt of a later one of the name stays.
func (a *attempts) forget(key api.Key, ended types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[key].attachment == ended {
		delete(a.of, key)
	}
}

// forgetAny drops the attempt of a name without a VolumeAttachment.
func (a *attempts) forgetAny(key api.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, key)
}
