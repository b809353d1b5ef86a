package disk

import "strings"

// An Identity tells devices apart, also across restarts of the node as far as the hardware
// has an ID. Drivers may store it.
type Identity struct {
	// ID is the ID of the hardware or of a mapped device, if there is one.
	ID string `json:"id,omitempty"`
	// Part is the number and the start of a partition; empty for a whole disk.
	Part string `json:"part,omitempty"`
	// Boot is the boot ID of the node, and Sequence a number that the kernel gives to each
	// device once per boot.
	Boot     string `json:"boot,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
}

// slotPrefix begins an ID that may belong to a slot or a reader instead of the medium.
const slotPrefix = "serial:"

// IsSame reports whether both are certainly one device.
func (i Identity) IsSame(other Identity) bool {
	if i.IsOther(other) {
		return false
	}
	if i.ID != "" && i.ID == other.ID && !strings.HasPrefix(i.ID, slotPrefix) {
		return true
	}
	return i.Boot != "" && i.Boot == other.Boot && i.Sequence != 0 && i.Sequence == other.Sequence
}

// IsOther reports whether both are certainly two devices.
func (i Identity) IsOther(other Identity) bool {
	return i.Part != other.Part || i.HasOtherID(other) || i.Replaces(other)
}

// HasOtherID reports whether both have hardware IDs, which differ.
func (i Identity) HasOtherID(other Identity) bool {
	return i.ID != "" && other.ID != "" && i.ID != other.ID
}

// Replaces reports whether the kernel has numbered both in one boot as two devices. A disk
// that was pulled out and put in again has a new number.
func (i Identity) Replaces(other Identity) bool {
	return i.Boot != "" && i.Boot == other.Boot && i.Sequence != 0 && other.Sequence != 0 && i.Sequence != other.Sequence
}

// MayOverlap reports whether one device may be the other, or a part of it.
func (i Identity) MayOverlap(other Identity) bool {
	parts := i.Part != "" && other.Part != "" && i.Part != other.Part
	return !parts && !i.HasOtherID(other) && !i.Replaces(other)
}
