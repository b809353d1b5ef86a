// Package condition reads and writes the volume condition in the answers of NodeGetVolumeStats.
//
// The specification up to v1.12 has the condition and its capability; v1.13 has removed both, and reserves
// their numbers. Drivers of earlier versions still send them. This package reads the encoded answer, so
// that it works with the Go package of each version: without the field, its bytes are an unknown field.
package condition

import (
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Capability is VOLUME_CONDITION of the node service.
const Capability csipb.NodeServiceCapability_RPC_Type = 4

// The numbers of fields.
const (
	conditionField = 2 // of NodeGetVolumeStatsResponse
	abnormalField  = 1
	messageField   = 2
)

// A Condition is the state of a volume.
type Condition struct {
	Abnormal bool
	Message  string
}

// Of returns the condition in an answer, with a message of valid UTF-8. It returns false for an answer
// without a condition, or with one that cannot be decoded.
func Of(answer *csipb.NodeGetVolumeStatsResponse) (c Condition, ok bool) {
	text, err := proto.Marshal(answer)
	if err != nil {
		return Condition{}, false
	}
	err = eachField(text, func(f field) error {
		if f.number != conditionField || f.kind != protowire.BytesType {
			return nil
		}
		ok = true
		return eachField(f.bytes, c.add) // a later one is merged
	})
	if err != nil || !ok {
		return Condition{}, false
	}
	c.Message = strings.ToValidUTF8(c.Message, "\uFFFD")
	return c, true
}

// Set adds a condition to an answer without one.
func Set(answer *csipb.NodeGetVolumeStatsResponse, c Condition) error {
	var inner, text []byte
	if c.Abnormal {
		inner = protowire.AppendTag(inner, abnormalField, protowire.VarintType)
		inner = protowire.AppendVarint(inner, protowire.EncodeBool(true))
	}
	if c.Message != "" {
		inner = protowire.AppendTag(inner, messageField, protowire.BytesType)
		inner = protowire.AppendString(inner, c.Message)
	}
	text = protowire.AppendTag(text, conditionField, protowire.BytesType)
	text = protowire.AppendBytes(text, inner)
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(text, answer)
}

// add adds a field of an encoded condition.
func (c *Condition) add(f field) error {
	switch {
	case f.number == abnormalField && f.kind == protowire.VarintType:
		c.Abnormal = protowire.DecodeBool(f.varint)
	case f.number == messageField && f.kind == protowire.BytesType:
		c.Message = string(f.bytes)
	}
	return nil
}

// A field is a field of an encoded message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	varint uint64 // of a VarintType
	bytes  []byte // of a BytesType
}

// eachField calls visit for the fields of an encoded message.
func eachField(text []byte, visit func(field) error) error {
	for len(text) > 0 {
		number, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return protowire.ParseError(n)
		}
		text = text[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.varint, n = protowire.ConsumeVarint(text)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(text)
		default:
			n = protowire.ConsumeFieldValue(number, kind, text)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		text = text[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}
