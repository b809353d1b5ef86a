package connection

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// A codec encodes and decodes the messages of one call, and notes how far the call came. gRPC encodes
// the request after it has a stream to the driver: a call without an encoded request is unsent.
type codec struct {
	encoded    bool
	refused    error // of a request that cannot be encoded
	unreadable bool  // the answer cannot be decoded: the driver may have acted
}

// Name returns "": the content type of the messages has no suffix.
func (*codec) Name() string { return "" }

// Marshal encodes a request.
func (c *codec) Marshal(v any) ([]byte, error) {
	data, err := encode(v)
	if err != nil {
		c.refused = err
		return nil, err
	}
	c.encoded = true
	return data, nil
}

// Unmarshal decodes an answer.
func (c *codec) Unmarshal(data []byte, v any) error {
	message, err := messageOf(v)
	if err == nil {
		err = proto.Unmarshal(data, message)
	}
	c.unreadable = err != nil
	return err
}

func encode(v any) ([]byte, error) {
	message, err := messageOf(v)
	if err != nil {
		return nil, err
	}
	if size := proto.Size(message); size > MaxMessage {
		return nil, fmt.Errorf("request must have at most %d bytes, got %d", MaxMessage, size)
	}
	return proto.Marshal(message)
}

// messageOf returns a message, which may be one of the older API of protocol buffers.
func messageOf(v any) (proto.Message, error) {
	switch message := v.(type) {
	case proto.Message:
		return message, nil
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(message), nil
	}
	return nil, fmt.Errorf("%T is not a message", v)
}
