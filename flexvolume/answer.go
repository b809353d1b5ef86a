package flexvolume

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// An answer is the JSON object that a driver prints. The names of fields are matched without regard to case.
type answer struct {
	Status       string        `json:"status"`
	Message      string        `json:"message"`
	Device       string        `json:"device"`
	Attached     bool          `json:"attached"`
	NewSize      int64         `json:"volumeNewSize"` // bytes
	Capabilities *capabilities `json:"capabilities"`
}

// Capabilities are the answer to init. Values that the driver omits have the kubelet's defaults.
type capabilities struct {
	Attach           bool `json:"attach"`
	SELinuxRelabel   bool `json:"selinuxRelabel"`
	SupportsMetrics  bool `json:"supportsMetrics"`
	FSGroup          bool `json:"fsGroup"`
	RequiresFSResize bool `json:"requiresFSResize"`
}

// The values of an answer's status. Any other value is a failure, as for a kubelet.
const (
	statusSuccess      = "Success"
	statusNotSupported = "Not supported"
)

// maxDevice is the largest length of a device's name: PATH_MAX without its NUL.
const maxDevice = 4095

// parseAnswer returns the answer of a driver by its output. The answer stands in standard output, or in standard
// error if that is empty.
func parseAnswer(output programOutput) (answer, error) {
	text := output.stdout
	if len(bytes.TrimSpace(text.kept)) == 0 {
		text = output.stderr
	}
	if text.cut {
		return answer{}, fmt.Errorf("%w: longer than %d bytes", ErrBadAnswer, maxOutput)
	}
	a := answer{Capabilities: &capabilities{Attach: true, SELinuxRelabel: true, FSGroup: true, RequiresFSResize: true}}
	if err := json.Unmarshal(text.kept, &a); err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrBadAnswer, withoutValue(err))
	}
	switch {
	case a.Status == "":
		return answer{}, fmt.Errorf("%w: no status", ErrBadAnswer)
	case a.Capabilities == nil: // null
		return answer{}, fmt.Errorf("%w: capabilities are null", ErrBadAnswer)
	case len(a.Device) > maxDevice || strings.ContainsRune(a.Device, 0):
		return answer{}, fmt.Errorf("%w: the device is no path", ErrBadAnswer)
	case a.NewSize < 0:
		return answer{}, fmt.Errorf("%w: volumeNewSize is negative: %d", ErrBadAnswer, a.NewSize)
	}
	return a, nil
}

// withoutValue returns an error of package json without the driver's text, which is shown, redacted, beside it.
func withoutValue(err error) error {
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return errors.New("not an object")
	case errors.As(err, &wrongType):
		return fmt.Errorf("%s: wrong type", wrongType.Field)
	case errors.As(err, &syntax):
		return errors.New("not JSON")
	}
	return err
}
