package csitest

import (
	"fmt"
	"slices"
)

// A Rule is a rule of the specification for clients.
type Rule string

// The rules. Of two rules that one call breaks the driver reports both.
const (
	// RuleOneCall: one call is in flight for a volume.
	RuleOneCall Rule = "one call is in flight for a volume"
	// RuleSameArguments: a call that is repeated after an unknown outcome or a success, with no
	// successful opposite call between, has the same arguments.
	RuleSameArguments Rule = "a repeated call has the same arguments"
	// RuleCapability: calls, fields and access modes need the capability that declares them.
	RuleCapability Rule = "the capability is declared"
	// RuleRequired: required fields are set.
	RuleRequired Rule = "required fields are set"
	// RuleLimit: strings have at most 128 bytes, paths 4,096, node IDs 256, maps and mount flags
	// together 4 KiB; sizes are not negative.
	RuleLimit Rule = "fields are within their limits"
	// RulePath: paths are absolute and clean.
	RulePath Rule = "paths are absolute"
	// RuleSecrets: calls have the secrets of Config.Secrets, whose names are valid.
	RuleSecrets Rule = "each call has its secrets"
	// RuleSecretLeak: a secret appears in no field but secrets.
	RuleSecretLeak Rule = "secrets appear in no other field"

	// RuleAttachFirst: with PUBLISH_UNPUBLISH_VOLUME a volume is attached to the node before it
	// is staged or published.
	RuleAttachFirst Rule = "attach before stage and publish"
	// RuleDetachLast: a volume is staged and published nowhere on a node when it is detached.
	RuleDetachLast Rule = "unstage and unpublish before detach"
	// RuleDeleteLast: a volume is in use nowhere when it is deleted.
	RuleDeleteLast Rule = "detach before delete"
	// RuleStageFirst: with STAGE_UNSTAGE_VOLUME a stage of the volume at the staging path of a
	// publish has succeeded, and no unstage has begun since.
	RuleStageFirst Rule = "stage before publish"
	// RuleStageOnce: a volume is staged at one path.
	RuleStageOnce Rule = "a volume is staged once"
	// RuleUnpublishFirst: before an unstage a successful unpublish has followed each publish that
	// has not failed for certain.
	RuleUnpublishFirst Rule = "unpublish before unstage"
	// RuleStagingDirectory: the staging path is a directory.
	RuleStagingDirectory Rule = "the staging directory exists"
	// RuleTargetParent: the parent directory of a target exists.
	RuleTargetParent Rule = "the target's parent directory exists"
	// RuleTarget: the driver creates the target, nothing else does.
	RuleTarget Rule = "the driver creates the target"
	// RuleOneVolume: a path is for one volume.
	RuleOneVolume Rule = "a path is for one volume"
	// RuleOneWriter: a volume of the mode SINGLE_NODE_SINGLE_WRITER is published at one target, a
	// volume of a mode for one node is attached to one.
	RuleOneWriter Rule = "a volume for one writer has one"
	// RulePublishContext: the publish context is that of the attachment.
	RulePublishContext Rule = "the publish context is that of the attachment"
	// RuleVolumeContext: the volume context is that of the volume, with further keys that begin
	// with "csi.storage.k8s.io/".
	RuleVolumeContext Rule = "the volume context is that of the volume"
	// RuleVolumePath: the path of an expansion, or of a query of statistics, is one at which the
	// volume is staged or published.
	RuleVolumePath Rule = "the volume path is a path of the volume"
	// RuleExpandOrder: a node expands a volume after its controller has, a volume that expands
	// offline is not in use.
	RuleExpandOrder Rule = "expansions are in order"
	// RuleShrink: a volume does not shrink.
	RuleShrink Rule = "volumes do not shrink"
)

// A Violation is a rule that a call has broken.
type Violation struct {
	Rule   Rule
	Call   Call
	Detail string
}

// String returns the rule, the detail and the call.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (call %d: %v)", v.Rule, v.Detail, v.Call.Number, v.Call)
}

// Violations returns the rules that calls have broken, in the order of the calls.
func (d *Driver) Violations() []Violation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.violations)
}

// ResetViolations forgets the violations so far.
func (d *Driver) ResetViolations() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.violations = nil
}

// violate records a violation. The caller holds d.mu.
func (d *Driver) violate(call *Call, rule Rule, format string, args ...any) {
	d.violations = append(d.violations, Violation{Rule: rule, Call: *call, Detail: fmt.Sprintf(format, args...)})
}
