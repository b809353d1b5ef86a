package expand

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sizes of a situation; "" is not set.
type situation struct {
	request, status, volume, allocated string
	state                              v1.ClaimResourceStatus
	isSettled, isMarked                bool
}

func listOf(size string) v1.ResourceList {
	if size == "" {
		return nil
	}
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
}

func (s situation) view() view {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "1"}}
	claim.Spec.VolumeName = "disk"
	claim.Spec.Resources.Requests = listOf(s.request)
	claim.Status.Phase, claim.Status.Capacity, claim.Status.AllocatedResources = v1.ClaimBound, listOf(s.status), listOf(s.allocated)
	if s.state != "" {
		claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: s.state}
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	pv.Spec.Capacity = listOf(s.volume)
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "data", UID: "1"}
	if s.isMarked {
		pv.Annotations = map[string]string{CapacityBeforeAnnotation: "1Gi"}
	}
	return view{claim: claim, volume: pv, isSettled: s.isSettled}
}

// TestDecide: the step for each state and each relation of the sizes.
func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		situation
		want step
		size string
	}{
		"large enough":                      {situation{request: "1Gi", status: "1Gi", volume: "1Gi"}, stepNone, ""},
		"smaller request":                   {situation{request: "1Gi", status: "2Gi", volume: "2Gi"}, stepNone, ""},
		"request":                           {situation{request: "2Gi", status: "1Gi", volume: "1Gi"}, stepMark, "2Gi"},
		"request after an expansion":        {situation{request: "3Gi", status: "2Gi", volume: "2Gi", allocated: "2Gi"}, stepMark, "3Gi"},
		"volume is large enough":            {situation{request: "2Gi", status: "1Gi", volume: "2Gi"}, stepMark, "2Gi"},
		"volume is larger":                  {situation{request: "2Gi", status: "1Gi", volume: "4Gi"}, stepMark, "4Gi"},
		"begun":                             {situation{request: "2Gi", status: "1Gi", volume: "1Gi", allocated: "2Gi", state: inProgress}, stepRepeat, "2Gi"},
		"begun, volume has grown":           {situation{request: "2Gi", status: "1Gi", volume: "2Gi", allocated: "2Gi", state: inProgress}, stepRepeat, "2Gi"},
		"begun, without a size":             {situation{request: "2Gi", status: "1Gi", volume: "1Gi", state: inProgress}, stepMark, "2Gi"},
		"open, larger request":              {situation{request: "9Gi", status: "1Gi", volume: "1Gi", allocated: "2Gi", state: inProgress}, stepRepeat, "2Gi"},
		"open, smaller request":             {situation{request: "2Gi", status: "1Gi", volume: "1Gi", allocated: "9Gi", state: inProgress}, stepRepeat, "9Gi"},
		"open, request is the capacity":     {situation{request: "1Gi", status: "1Gi", volume: "1Gi", allocated: "9Gi", state: inProgress}, stepRepeat, "9Gi"},
		"settled, same request":             {situation{request: "9Gi", status: "1Gi", volume: "1Gi", allocated: "9Gi", state: inProgress, isSettled: true}, stepRepeat, "9Gi"},
		"settled, smaller request":          {situation{request: "2Gi", status: "1Gi", volume: "1Gi", allocated: "9Gi", state: inProgress, isSettled: true}, stepMark, "2Gi"},
		"settled, larger request":           {situation{request: "12Gi", status: "1Gi", volume: "1Gi", allocated: "9Gi", state: inProgress, isSettled: true}, stepMark, "12Gi"},
		"settled, request is the capacity":  {situation{request: "1Gi", status: "1Gi", volume: "1Gi", allocated: "9Gi", state: inProgress, isSettled: true}, stepNone, ""},
		"infeasible":                        {situation{request: "9Gi", status: "1Gi", volume: "1Gi", allocated: "9Gi", state: infeasible}, stepMark, "9Gi"},
		"infeasible, smaller request":       {situation{request: "2Gi", status: "1Gi", volume: "1Gi", allocated: "9Gi", state: infeasible}, stepMark, "2Gi"},
		"infeasible, volume between":        {situation{request: "2Gi", status: "1Gi", volume: "4Gi", allocated: "9Gi", state: infeasible}, stepMark, "4Gi"},
		"node pending":                      {situation{request: "2Gi", status: "1Gi", volume: "2Gi", allocated: "2Gi", state: nodePending, isMarked: true}, stepNone, ""},
		"node pending, larger request":      {situation{request: "9Gi", status: "1Gi", volume: "2Gi", allocated: "2Gi", state: nodePending, isMarked: true}, stepNone, ""},
		"node pending, volume is too small": {situation{request: "2Gi", status: "1Gi", volume: "1Gi", allocated: "2Gi", state: nodePending}, stepMark, "2Gi"},
		"node in progress":                  {situation{request: "2Gi", status: "1Gi", volume: "2Gi", allocated: "2Gi", state: nodeInProgress, isMarked: true}, stepNone, ""},
		"node in progress, smaller request": {situation{request: "2Gi", status: "1Gi", volume: "9Gi", allocated: "9Gi", state: nodeInProgress, isMarked: true}, stepNone, ""},
		"node infeasible":                   {situation{request: "2Gi", status: "1Gi", volume: "2Gi", allocated: "2Gi", state: nodeInfeasible, isMarked: true}, stepMark, "2Gi"},
		"node infeasible, larger request":   {situation{request: "9Gi", status: "1Gi", volume: "2Gi", allocated: "2Gi", state: nodeInfeasible, isMarked: true}, stepMark, "9Gi"},
		"node infeasible, smaller request":  {situation{request: "2Gi", status: "1Gi", volume: "9Gi", allocated: "9Gi", state: nodeInfeasible, isMarked: true}, stepMark, "9Gi"},
		"node has ended":                    {situation{request: "2Gi", status: "2Gi", volume: "2Gi", allocated: "2Gi", isMarked: true}, stepClear, ""},
		"node has ended, larger request":    {situation{request: "9Gi", status: "2Gi", volume: "2Gi", allocated: "2Gi", isMarked: true}, stepClear, ""},
		"unknown state":                     {situation{request: "2Gi", status: "1Gi", volume: "1Gi", allocated: "2Gi", state: "Other"}, stepMark, "2Gi"},
		"request of 0":                      {situation{request: "0", status: "1Gi", volume: "1Gi"}, stepNone, ""},
		"negative request":                  {situation{request: "-1", status: "1Gi", volume: "1Gi"}, stepNone, ""},
		"huge request":                      {situation{request: "9e30", status: "1Gi", volume: "1Gi"}, stepNone, ""},
		"huge allocation":                   {situation{request: "2Gi", status: "1Gi", volume: "1Gi", allocated: "9e30"}, stepNone, ""},
		"no capacity":                       {situation{request: "2Gi", volume: "1Gi"}, stepNone, ""},
		"volume without capacity":           {situation{request: "2Gi", status: "1Gi"}, stepNone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			step, size := decide(test.view())
			require.Equal(t, test.want, step)
			if test.size == "" {
				require.True(t, size.IsZero(), size.String())
				return
			}
			require.Zero(t, size.Cmp(resource.MustParse(test.size)), size.String())
		})
	}
}

// TestDecideUnbound: a claim and a volume that are not bound to each other have no step.
func TestDecideUnbound(t *testing.T) {
	for name, change := range map[string]func(v *view){
		"no claim":        func(v *view) { v.claim = nil },
		"no volume":       func(v *view) { v.volume = nil },
		"pending claim":   func(v *view) { v.claim.Status.Phase = v1.ClaimPending },
		"lost claim":      func(v *view) { v.claim.Status.Phase = v1.ClaimLost },
		"other volume":    func(v *view) { v.claim.Spec.VolumeName = "other" },
		"no reference":    func(v *view) { v.volume.Spec.ClaimRef = nil },
		"later claim":     func(v *view) { v.volume.Spec.ClaimRef.UID = "2" },
		"no UID":          func(v *view) { v.volume.Spec.ClaimRef.UID = "" },
		"other name":      func(v *view) { v.volume.Spec.ClaimRef.Name = "other" },
		"other namespace": func(v *view) { v.volume.Spec.ClaimRef.Namespace = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			v := situation{request: "2Gi", status: "1Gi", volume: "1Gi"}.view()
			change(&v)
			step, _ := decide(v)
			require.Equal(t, stepNone, step)
		})
	}
}
