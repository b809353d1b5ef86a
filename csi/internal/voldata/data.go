package voldata

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

const (
	// FileName is the name of a file with data.
	FileName = "vol_data.json"
	// MaxSize is the largest size of a file in bytes: more than a volume of the API can have.
	MaxSize = 4 << 20

	// Persistent and Ephemeral are the values of LifecycleMode.
	Persistent = "Persistent"
	Ephemeral  = "Ephemeral"
)

// The keys of a file.
const (
	keySpecVolumeID  = "specVolID"
	keyVolumeHandle  = "volumeHandle"
	keyDriverName    = "driverName"
	keyNodeName      = "nodeName"
	keyAttachmentID  = "attachmentID"
	keyLifecycleMode = "volumeLifecycleMode"
	keySELinux       = "seLinuxMountContext"
	keyCall          = "volumekit.io/call"
	keyState         = "volumekit.io/state"
	keyRepaired      = "volumekit.io/repaired"
)

// Data describes one volume. Empty fields are absent from the file.
type Data struct {
	SpecVolumeID  string // name of the persistent volume, or of the volume in its pod
	VolumeHandle  string
	DriverName    string
	NodeName      string
	AttachmentID  string // name of the VolumeAttachment
	LifecycleMode string // Persistent or Ephemeral; empty in files that a kubelet writes for a node
	SELinux       string // the label that the volume is mounted with
	// Call is the last call. Nil: the file is of a kubelet, or the volume needs no call.
	Call *Call
	// Repaired: the file was lost, and the program and the arguments that have brought the volume up are unknown.
	Repaired bool
}

// A Call is a call of the driver.
type Call struct {
	Boot  string `json:"boot"`
	State State  `json:"-"` // under a key of its own
	// Request is the encoded request, without secrets.
	Request []byte `json:"request,omitempty"`
	// TakenOver: a kubelet has brought the volume up, and the call repeats its arguments.
	TakenOver bool `json:"takenOver,omitempty"`
}

// A State is the progress of a call. Each has one letter in a file: files that differ in the state of their
// call alone differ in one byte.
type State string

const (
	// Sent: the call may have been sent. The zero value.
	Sent State = ""
	// Done: the volume has been brought up by the call, and all of its files have their owners.
	Done State = "d"
	// Failed: the driver has answered with a final error to the last repetition.
	Failed State = "f"
	// Reverting: the call that takes the volume down may have been sent.
	Reverting State = "r"
	// Skipped: the volume was asked for when the driver had no such call. The outcome of the recorded one is unknown.
	Skipped State = "n"

	sent = "s" // is Sent in a file
)

// errNoVolume: the file lacks the name of a driver or a volume handle.
var errNoVolume = errors.New("names no volume of a driver")

// Parse decodes a file. Like a kubelet it ignores unknown keys. A call that cannot be decoded is
// nil: the next call then begins anew.
func Parse(text []byte) (Data, error) {
	if len(text) > MaxSize {
		return Data{}, fmt.Errorf("must have at most %d bytes", MaxSize)
	}
	values := map[string]string{}
	if err := json.Unmarshal(text, &values); err != nil {
		return Data{}, err
	}
	d := Data{
		SpecVolumeID: values[keySpecVolumeID], VolumeHandle: values[keyVolumeHandle], DriverName: values[keyDriverName],
		NodeName: values[keyNodeName], AttachmentID: values[keyAttachmentID],
		LifecycleMode: values[keyLifecycleMode], SELinux: values[keySELinux],
		Repaired: values[keyRepaired] != "",
	}
	if d.VolumeHandle == "" || d.DriverName == "" {
		return Data{}, errNoVolume
	}
	if text, ok := values[keyCall]; ok {
		call := new(Call)
		if json.Unmarshal([]byte(text), call) == nil {
			call.State = stateOf(values[keyState])
			d.Call = call
		}
	}
	return d, nil
}

// stateOf returns the state of a letter. An unknown one is an unknown outcome, as of Sent.
func stateOf(letter string) State {
	switch state := State(letter); state {
	case Done, Failed, Reverting, Skipped:
		return state
	}
	return Sent
}

// Text encodes the data, with a line break at the end, as a kubelet writes it.
func (d Data) Text() ([]byte, error) {
	values := map[string]string{
		keySpecVolumeID: d.SpecVolumeID, keyVolumeHandle: d.VolumeHandle, keyDriverName: d.DriverName,
		keyNodeName: d.NodeName, keyAttachmentID: d.AttachmentID,
		keyLifecycleMode: d.LifecycleMode, keySELinux: d.SELinux,
	}
	if d.Repaired {
		values[keyRepaired] = "true"
	}
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
	if d.Call != nil {
		call, err := json.Marshal(d.Call)
		if err != nil {
			return nil, err
		}
		values[keyCall], values[keyState] = string(call), cmp.Or(string(d.Call.State), sent)
	}
	text, err := json.Marshal(values)
	if err == nil && len(text) >= MaxSize {
		err = fmt.Errorf("must have less than %d bytes", MaxSize)
	}
	return append(text, '\n'), err
}

// SameVolume reports whether two files describe the same volume of the same driver.
func (d Data) SameVolume(other Data) bool {
	return d.DriverName == other.DriverName && d.VolumeHandle == other.VolumeHandle
}

// WithState returns the data with another state of the call, which must not be nil.
func (d Data) WithState(state State) Data {
	call := *d.Call
	call.State = state
	d.Call = &call
	return d
}
