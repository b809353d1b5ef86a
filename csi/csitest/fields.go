package csitest

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// requiredFields are, by method, the required fields of the request. Scalars that may be zero are
// left out.
var requiredFields = map[Method][]protoreflect.Name{
	CreateVolume:               {"name", "volume_capabilities"},
	DeleteVolume:               {"volume_id"},
	ControllerPublishVolume:    {"volume_id", "node_id", "volume_capability"},
	ControllerUnpublishVolume:  {"volume_id"},
	ValidateVolumeCapabilities: {"volume_id", "volume_capabilities"},
	ControllerExpandVolume:     {"volume_id", "capacity_range"},
	ControllerModifyVolume:     {"volume_id", "mutable_parameters"},
	ControllerGetVolume:        {"volume_id"},
	NodeStageVolume:            {"volume_id", "staging_target_path", "volume_capability"},
	NodeUnstageVolume:          {"volume_id", "staging_target_path"},
	NodePublishVolume:          {"volume_id", "target_path", "volume_capability"},
	NodeUnpublishVolume:        {"volume_id", "target_path"},
	NodeGetVolumeStats:         {"volume_id", "volume_path"},
	NodeExpandVolume:           {"volume_id", "volume_path"},
}

// Limits of the sizes of fields, in bytes.
const (
	maxString = 128
	maxNodeID = 256
	maxPath   = 4095 // PATH_MAX without its zero byte
	maxMap    = 4 << 10
)

// checkFields checks the fields of a request by themselves.
func (d *Driver) checkFields(call *Call) (refusal error) {
	report := func(rule Rule, format string, args ...any) {
		d.violate(call, rule, format, args...)
		if refusal == nil {
			refusal = status.Errorf(codes.InvalidArgument, format, args...)
		}
	}
	m := call.Request.ProtoReflect()
	for _, name := range requiredFields[call.Method] {
		if !m.Has(m.Descriptor().Fields().ByName(name)) {
			report(RuleRequired, "%s is missing", name)
		}
	}
	for _, capability := range volumeCapabilities(call.Request) {
		if capability.GetAccessType() == nil {
			report(RuleRequired, "access_type is missing")
		}
		if capability.GetAccessMode().GetMode() == csipb.VolumeCapability_AccessMode_UNKNOWN {
			report(RuleRequired, "access_mode is missing")
		}
		if flags := strings.Join(capability.GetMount().GetMountFlags(), ""); len(flags) > maxMap {
			report(RuleLimit, "mount_flags have %d bytes", len(flags))
		}
	}
	if with, ok := call.Request.(interface{ GetCapacityRange() *csipb.CapacityRange }); ok && with.GetCapacityRange() != nil {
		checkRange(with.GetCapacityRange(), report)
	}
	checkSizes(m, report)
	if size := mapSize(call.Secrets); size > maxMap {
		report(RuleLimit, "secrets have %d bytes", size)
	}
	return refusal
}

type reporter = func(rule Rule, format string, args ...any)

func checkRange(r *csipb.CapacityRange, report reporter) {
	required, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	switch {
	case required == 0 && limit == 0:
		report(RuleRequired, "capacity_range has no size")
	case required < 0 || limit < 0 || limit > 0 && limit < required:
		report(RuleLimit, "capacity_range is from %d to %d", required, limit)
	}
}

// checkSizes checks the sizes of strings and maps, and the form of paths, also in messages inside.
func checkSizes(m protoreflect.Message, report reporter) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			if size := mapSize(stringMap(value)); size > maxMap {
				report(RuleLimit, "%s has %d bytes", field.Name(), size)
			}
		case field.IsList():
			for i := range value.List().Len() {
				checkSize(field, value.List().Get(i), report)
			}
		default:
			checkSize(field, value, report)
		}
		return true
	})
}

func checkSize(field protoreflect.FieldDescriptor, value protoreflect.Value, report reporter) {
	switch field.Kind() {
	case protoreflect.MessageKind:
		checkSizes(value.Message(), report)
	case protoreflect.StringKind:
		most, text := maxString, value.String()
		switch {
		case strings.HasSuffix(string(field.Name()), "_path"):
			if most = maxPath; !path.IsAbs(text) || path.Clean(text) != text || strings.Contains(text, "\x00") {
				report(RulePath, "%s is %q", field.Name(), text)
			}
		case field.Name() == "node_id":
			most = maxNodeID
		case field.Name() == "mount_flags":
			most = maxMap
		}
		if len(text) > most {
			report(RuleLimit, "%s has %d bytes", field.Name(), len(text))
		}
	}
}

func mapSize(m map[string]string) (size int) {
	for key, value := range m {
		size += len(key) + len(value)
	}
	return size
}

var secretName = regexp.MustCompile(`^[-_.a-zA-Z0-9]+$`)

// shortestLeak is the length of the shortest secret that is searched for in other fields: a shorter
// one can be there by chance.
const shortestLeak = 6

// checkSecrets checks the secrets of a call, and that none of them is in another field.
func (d *Driver) checkSecrets(call *Call) error {
	for _, name := range call.Secrets.names() {
		if name != tokensKey && !secretName.MatchString(name) {
			d.violate(call, RuleSecrets, "the name %q is not valid", name)
		}
		if value := call.Secrets[name]; len(value) >= shortestLeak {
			d.secrets[value] = true
		}
	}
	visitStrings(call.Request.ProtoReflect(), func(name, text string) {
		for secret := range d.secrets {
			if strings.Contains(text, secret) {
				d.violate(call, RuleSecretLeak, "a secret is in %s", name)
			}
		}
	})
	if d.config.Secrets == nil || equalSecrets(call.Secrets, d.config.Secrets[call.Method]) {
		return nil
	}
	detail := fmt.Sprintf("the secrets %v are not those of %v", call.Secrets, d.config.Secrets[call.Method])
	d.violate(call, RuleSecrets, "%s", detail)
	return status.Error(codes.Unauthenticated, detail)
}

// equalSecrets compares secrets. The tokens of service accounts are left out.
func equalSecrets(a, b Secrets) bool {
	for _, pair := range [][2]Secrets{{a, b}, {b, a}} {
		for name, value := range pair[0] {
			if other, ok := pair[1][name]; name != tokensKey && (!ok || other != value) {
				return false
			}
		}
	}
	return true
}

// visitStrings calls visit for each string in a message, also in messages inside, with the name of
// its field.
func visitStrings(m protoreflect.Message, visit func(name, text string)) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		name := string(field.Name())
		one := func(value protoreflect.Value) {
			switch field.Kind() {
			case protoreflect.MessageKind:
				visitStrings(value.Message(), visit)
			case protoreflect.StringKind:
				visit(name, value.String())
			}
		}
		switch {
		case field.IsMap():
			for key, text := range stringMap(value) {
				visit(name, key)
				visit(name, text)
			}
		case field.IsList():
			for i := range value.List().Len() {
				one(value.List().Get(i))
			}
		default:
			one(value)
		}
		return true
	})
}

// tokensKey is the key of the tokens of service accounts, in volume contexts and in secrets.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// repeats reports whether a request has the arguments of an earlier one. Secrets and the tokens of
// service accounts may differ.
func repeats(earlier, req proto.Message) bool {
	return proto.Equal(withoutTokens(earlier), withoutTokens(req))
}

func withoutTokens(req proto.Message) proto.Message {
	with, ok := req.(interface{ GetVolumeContext() map[string]string })
	if !ok || with.GetVolumeContext()[tokensKey] == "" {
		return req
	}
	clone := proto.Clone(req)
	if with, ok = clone.(interface{ GetVolumeContext() map[string]string }); ok {
		delete(with.GetVolumeContext(), tokensKey)
	}
	return clone
}
