package sidecar

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// guards are the code fragments without which a volume leaks, is detached too early, or a tenant reaches an object that is not
// its own, each with the code without it. A test fails without any one of them.
var guards = []testbed.Guard{
	{"an error before the call leaves the storage open", "provisioner.go", "r, err = p.newRequest(ctx, o); err != nil {\n\t\t\treturn nil, beforeCall(err)", "r, err = p.newRequest(ctx, o); err != nil {\n\t\t\treturn nil, err"},
	{"a call with an open outcome is repeated", "openrequest.go", "case kind == volume.Uncertain:", "case false:"},
	{"a request is kept for its claim", "openrequest.go", "return r, ok && r.claim == options.PVC.UID", "return r, ok"},
	{"a request is forgotten after its outcome", "openrequest.go", "\tdefault:\n\t\tdelete(o.byName, r.call.Name)", "\tdefault:"},
	{"a request with other arguments is made again", "openrequest.go", " || !r.mayExist)", ")"},
	{"a deleted secret keeps no open call", "secret.go", "if mayExist && apierrors.IsNotFound(err) {", "if false && apierrors.IsNotFound(err) {"},
	{"a first call has its secret", "secret.go", "if mayExist && apierrors.IsNotFound(err) {", "if apierrors.IsNotFound(err) {"},
	{"a volume without its secret is refused", "provisioner.go", "cmp.Or(r.refusal, secrets.missing, ", "cmp.Or(r.refusal, "},
	{"a volume that may exist is found", "createrequest.go", "if !r.mayExist || volume.KindOf(err)", "if volume.KindOf(err) == volume.Final || volume.KindOf(err)"},
	{"a volume that a check refuses is refused", "provisioner.go", "cmp.Or(r.refusal, secrets.missing, ", "cmp.Or(secrets.missing, "},
	{"a volume of a lost node is found", "createrequest.go", "if r.mayExist && errors.Is(err, volume.ErrReschedule) {", "if false {"},
	{"a copy of a larger source is found", "source.go", "if r.mayExist {\n\t\treturn nil", "if false {\n\t\treturn nil"},
	{"a call that was not sent has no outcome", "outcome.go", "if volume.KindOf(err) == volume.Transient {", "if false {"},
	{"an existing volume is not given up", "outcome.go", "return volume.AsTransient(err)", "return err"},
	{"a full driver may have another node", "outcome.go", "if mayReschedule {", "if false {"},
	{"only a selected node is given up", "outcome.go", "if mayReschedule {", "if true {"},
	{"a volume without an ID is uncertain", "provisioner.go", `if answer.GetVolume().GetVolumeId() == "" {`, "if false {"},
	{"an empty copy is refused", "volumeobject.go", "&& created.GetContentSource() == nil {", "&& false {"},
	{"a volume that no API server stores is refused", "volumeobject.go", "size > mostVolumeBytes {", "false && size > 0 {"},
	{"volumes of others are not deleted", "provisioner.go", "if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != p.driver.name {", "if pv.Spec.CSI == nil {"},
	{"a deleted secret keeps no volume", "secret.go", "if apierrors.IsNotFound(err) {", "if apierrors.IsNotFound(err) && false {"},
	{"a class of another driver names no secret", "deletion.go", "case class.Provisioner != p.driver.name:", "case false:"},
	{"a volume names the secret of modifications", "volumeobject.go", "if ref := r.secrets[forControllerModify]; ref != nil {", "if ref := r.secrets[forControllerModify]; false {"},
	{"a modification has a secret", "modifier.go", "secretsOf(ctx, m.secrets, modifySecret(req.Volume))", "secretsOf(ctx, m.secrets, nil)"},
	{"half a reference is none", "modifier.go", `if name == "" || namespace == "" {`, `if name == "" && namespace == "" {`},
	{"a copied volume belongs to the claim", "source.go", "ref == nil || ref.UID != source.UID ||", "ref == nil ||"},
	{"a copied volume is the driver's", "source.go", "pv.Spec.CSI == nil || pv.Spec.CSI.Driver != p.driver.name {", "pv.Spec.CSI == nil {"},
	{"a copy is not smaller", "source.go", "if asked.Cmp(has) < 0 {", "if false {"},
	{"a copy has the volume mode", "source.go", "if isBlock(claim.Spec.VolumeMode) != isBlock(pv.Spec.VolumeMode) {", "if false {"},
	{"a source is in the namespace of the claim", "source.go", "case s.namespace != claim.Namespace:", "case false:"},
	{"populators fill their volumes", "source.go", "case s.isForeign():", "case false:"},
	{"a tenant chooses no namespace", "secrettemplate.go", "expandTemplate(t.namespace, inNamespace)", "expandTemplate(t.namespace, func(k string) (string, bool) { return tenantValue(k, claim) })"},
	{"a secret namespace is a name", "secrettemplate.go", "len(input.Problems(validation.IsDNS1123Label, namespace)) > 0", "false"},
	{"a secret name is a name", "secrettemplate.go", "len(input.Problems(validation.IsDNS1123Subdomain, name)) > 0", "false"},
	{"unknown reserved parameters are refused", "parameters.go", "case strings.HasPrefix(key, reserved):", "case false:"},
	{"a class allows few topologies", "topology.go", "if len(expression.Values) > mostTerms/len(combinations) {", "if false {"},
	{"a selected node is allowed", "topology.go", "case len(allowed) > 0 && !slices.ContainsFunc(allowed, own.includes):", "case false:"},
	{"a new registration is confirmed", "drivernode.go", "if !ok || len(topologyKeys(csiNode, d.driver)) == 0 {", "if !ok {"},
	{"no call detaches from all nodes", "attacher.go", `if req.NodeID != "" {`, "if true {"},
	{"a deleted secret keeps no attachment", "attacher.go", "secrets, err := remainingSecretsOf(", "secrets, err := secretsOf("},
	{"volumes of others are not attached", "attacher.go", "case source == nil || source.Driver != a.driver.name:", "case source == nil:"},
	{"a list has pages", "attacher.go", "if connection.IsUnreadable(err) && call.MaxEntries == 0 {", "if connection.IsUnreadable(err) && false {"},
	{"an endless list ends", "attacher.go", "if size > mostListed {", "if false {"},
	{"read-only needs its capability", "attacher.go", "source.ReadOnly && a.driver.capabilities.publishReadOnly", "source.ReadOnly"},
	{"no mode includes readers and a writer", "usage.go", "case has(v1.ReadOnlyMany) && len(", "case false && len("},
	{"an expansion has a size", "expander.go", "if err == nil && bytes <= 0 {", "if false {"},
	{"a negative capacity is none", "capacity.go", "if answer.GetAvailableCapacity() < 0 ||", "if false ||"},
	{"an equal capacity is not written", "capacity.go", "case !isSameSize(object.Capacity, available) ||", "case true ||"},
	{"an object receives the owner", "capacity.go", " || !c.isOwned(object):", ":"},
	{"an owner is added once", "capacity.go", "return owner.UID == c.config.Owner.UID", "return false"},
	{"an object has one controller", "capacity.go", "if owner.Controller != nil && *owner.Controller {", "if false {"},
	{"a capacity is queried once in an interval", "capacity.go", "!c.queried[key].IsZero() && wait > 0 {", "false {"},
	{"capacities of others stay", "capacity.go", "cache.LabelSelector = capacityDriverLabel", "_ = capacityDriverLabel"},
	{"a stopped watch ends", "nodelabels.go", "case <-w.stopped:", "case <-(chan struct{})(nil):"},
	{"few calls wait for a volume", "exclusive.go", "if v.waiting[id] >= v.most {", "if false {"},
	{"a call that has waited makes room", "exclusive.go", "defer v.leave(id)", "_ = v.leave"},
	{"a replica without the lease does not work", "sidecar.go", "if config.Leader == nil {", "if true {"},
	{"the end of a term is no error", "sidecar.go", "if ctx.Err() != nil { // the term has ended", "if false { // the term has ended"},
	{"an expansion has a timeout of its own", "conn.go", "own = c.ExpandTimeout", "own = 0"},
	{"a modification has a timeout of its own", "conn.go", "own = c.ModifyTimeout", "own = 0"},
	{"a new volume is writable", "volumeobject.go", "(p.config.ReadOnlyVolumes || r.call", "(true || r.call"},
	{"a driver has a name", "driver.go", "if !isDriverName(d.name) {", "if false {"},
}

// quickTests are the tests that are not about the guards' list, or take seconds.
const quickTests = "^(Test[A-FH-RT-Z].*|TestS[a-df-z].*|Fuzz.*)$"

// TestGuardsAreThere: a guard that has been written in another way is still in the list.
func TestGuardsAreThere(t *testing.T) { testbed.CheckGuards(t, guards) }

// TestTestsFindMissingGuards: without any one of the guards a test fails. "make mutants" runs it.
func TestTestsFindMissingGuards(t *testing.T) {
	if !testbed.Long() {
		t.Skip("it compiles the package for each guard: VOLUMEKIT_LONG=1")
	}
	testbed.Mutants(t, testbed.Mutation{Guards: guards, Run: quickTests})
}
