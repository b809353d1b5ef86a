package nfsserver

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// A call is the header of an ONC RPC call, RFC 5531.
type call struct {
	id, program, version, procedure uint32
	args                            xdr
}

// An xdr decodes data in the form of RFC 4506, from the beginning. Missing data decode as
// zero.
type xdr []byte

func (x *xdr) number() uint32 {
	if len(*x) < 4 {
		*x = nil
		return 0
	}
	n := binary.BigEndian.Uint32(*x)
	*x = (*x)[4:]
	return n
}

func (x *xdr) opaque() []byte {
	n := int(x.number())
	padded := n + -n&3
	if padded < n || len(*x) < padded {
		*x = nil
		return nil
	}
	data := (*x)[:n]
	*x = (*x)[padded:]
	return data
}

func numbers(numbers ...uint32) (x xdr) {
	for _, n := range numbers {
		x = binary.BigEndian.AppendUint32(x, n)
	}
	return x
}

func opaque(data []byte) xdr {
	return append(append(numbers(uint32(len(data))), data...), make([]byte, -len(data)&3)...)
}

func parseCall(message xdr) (c call, ok bool) {
	c.id = message.number()
	const isCall, rpcVersion = 0, 2
	if message.number() != isCall || message.number() != rpcVersion {
		return c, false
	}
	c.program, c.version, c.procedure = message.number(), message.number(), message.number()
	for range 2 { // credentials and verifier
		_ = message.number()
		_ = message.opaque()
	}
	c.args = message
	return c, true
}

// reply answers a call. Without a result the answer is that the procedure does not exist.
func (c call) reply(result xdr) xdr {
	const isReply, accepted, noAuth, success, noProcedure = 1, 0, 0, 0, 3
	if result == nil {
		return numbers(c.id, isReply, accepted, noAuth, 0, noProcedure)
	}
	return append(numbers(c.id, isReply, accepted, noAuth, 0, success), result...)
}

// lastFragment marks the last fragment of a message. Longer messages are not supported.
const lastFragment = 1 << 31

func readMessage(r io.Reader) (xdr, error) {
	var mark [4]byte
	if _, err := io.ReadFull(r, mark[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(mark[:])
	if size&lastFragment == 0 || size&^lastFragment > 1<<16 {
		return nil, errors.New("not a message that we expect")
	}
	message := make(xdr, size&^lastFragment)
	_, err := io.ReadFull(r, message)
	return message, err
}

// answerCalls answers the calls on a connection until it is closed.
func answerCalls(conn net.Conn, answer func(call) xdr) error {
	for {
		message, err := readMessage(conn)
		if err != nil {
			return err
		}
		c, ok := parseCall(message)
		if !ok {
			return errors.New("not a call")
		}
		reply := c.reply(answer(c))
		if _, err := conn.Write(append(numbers(uint32(len(reply))|lastFragment), reply...)); err != nil {
			return err
		}
	}
}
