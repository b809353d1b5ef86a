package modify

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newView returns a bound claim that names one class and has another one, and the state of a change.
func newView(wanted, present, target string, state v1.PersistentVolumeClaimModifyVolumeStatus) view {
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	v := view{
		claim: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1"},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "disk", VolumeAttributesClassName: text(wanted)},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, CurrentVolumeAttributesClassName: text(present)},
		},
		volume: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: v1.PersistentVolumeSpec{
			ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: "data", UID: "1"}, VolumeAttributesClassName: text(present),
		}},
	}
	if state != "" || target != "" {
		v.claim.Status.ModifyVolumeStatus = &v1.ModifyVolumeStatus{TargetVolumeAttributesClassName: target, Status: state}
	}
	return v
}

// TestDecide: each state of a claim has its next step.
func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		wanted, present, target string
		state                   v1.PersistentVolumeClaimModifyVolumeStatus
		change                  func(*view)
		step                    step
		class                   string
	}{
		"no class":                            {"", "", "", "", nil, stepNone, ""},
		"its class":                           {"a", "a", "", "", nil, stepNone, ""},
		"no class any more":                   {"", "a", "", "", nil, stepNone, ""},
		"first class":                         {"a", "", "", "", nil, stepBegin, "a"},
		"another class":                       {"b", "a", "", "", nil, stepBegin, "b"},
		"begun":                               {"b", "a", "b", inProgress, nil, stepCall, "b"},
		"open, and a third class":             {"c", "a", "b", inProgress, nil, stepCall, "b"},
		"open, and reset":                     {"a", "a", "b", inProgress, nil, stepCall, "b"},
		"open, and no class any more":         {"", "", "b", inProgress, nil, stepCall, "b"},
		"failed, and tried again":             {"b", "a", "b", inProgress, settle, stepCall, "b"},
		"failed, and a third class":           {"c", "a", "b", inProgress, settle, stepBegin, "c"},
		"failed, and reset":                   {"a", "a", "b", inProgress, clean, stepClear, ""},
		"failed after an effect, and reset":   {"a", "a", "b", inProgress, settle, stepBegin, "a"},
		"changing back":                       {"a", "a", "a", inProgress, settle, stepCall, "a"},
		"failed, and no class any more":       {"", "", "b", inProgress, settle, stepClear, ""},
		"lost":                                {"b", "a", "b", inProgress, lose, stepCall, "b"},
		"lost, and reset":                     {"a", "a", "b", inProgress, lose, stepBegin, "a"},
		"lost, and a third class":             {"c", "a", "b", inProgress, lose, stepBegin, "c"},
		"lost, and no class any more":         {"", "a", "b", inProgress, lose, stepCall, "b"},
		"infeasible":                          {"b", "a", "b", infeasible, nil, stepBegin, "b"},
		"infeasible, and a third class":       {"c", "a", "b", infeasible, nil, stepBegin, "c"},
		"infeasible, and reset":               {"a", "a", "b", infeasible, clean, stepClear, ""},
		"infeasible, unknown, and reset":      {"a", "a", "b", infeasible, nil, stepBegin, "a"},
		"pending":                             {"b", "a", "b", pending, nil, stepBegin, "b"},
		"pending, and reset":                  {"a", "a", "b", pending, clean, stepClear, ""},
		"a state of another program":          {"b", "a", "b", "Strange", nil, stepBegin, "b"},
		"a state of another program, and end": {"a", "a", "b", "Strange", nil, stepBegin, "a"},
		"another class in the volume":         {"a", "a", "", "", showOther, stepBegin, "a"},
		"clean, and another class there":      {"a", "a", "b", infeasible, func(v *view) { clean(v); showOther(v) }, stepBegin, "a"},
		"not bound":                           {"b", "a", "", "", func(v *view) { v.claim.Status.Phase = v1.ClaimPending }, stepNone, ""},
		"another claim's volume":              {"b", "a", "b", inProgress, func(v *view) { v.volume.Spec.ClaimRef.UID = "2" }, stepNone, ""},
		"no volume":                           {"b", "a", "", "", func(v *view) { v.volume = nil }, stepNone, ""},
		"no claim":                            {"b", "a", "", "", func(v *view) { v.claim = nil }, stepNone, ""},
	} {
		v := newView(test.wanted, test.present, test.target, test.state)
		if test.change != nil {
			test.change(&v)
		}
		step, class := decide(v)
		require.Equal(t, test.step, step, name)
		require.Equal(t, test.class, class, name)
	}
}

func clean(v *view)  { v.isSettled, v.isClean = true, true }
func settle(v *view) { v.isSettled = true }
func lose(v *view)   { v.isLost = true }

func showOther(v *view) {
	other := "other"
	v.volume.Spec.VolumeAttributesClassName = &other
}
