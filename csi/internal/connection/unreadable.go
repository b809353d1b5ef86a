package connection

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/volume"
)

// unreadableTexts begin the errors of gRPC for an answer that has not arrived as a whole. Their codes are no answers of
// the driver, although drivers use them, too: ResourceExhausted for an answer above MaxMessage, Internal and others for
// a reset stream.
var unreadableTexts = []string{
	"grpc: received message larger than max",
	"grpc: received message after decompression larger than max",
	"grpc: trying to send message larger than max", // of the driver's side
	"peer header list size exceeded limit",
	"stream terminated by RST_STREAM",
}

// IsUnreadable reports whether an error is a [*CallError] for an answer that could not be received or decoded.
func IsUnreadable(err error) bool {
	return volume.KindOf(err) == volume.Uncertain && hasCode(err, codes.Internal)
}

// isUnreadable reports whether an error is one of gRPC for an answer that has not arrived as a whole. A call that has
// ended has no answer: newer versions of gRPC reset its stream at the driver's side, too, and that may arrive before the
// end is seen here.
func isUnreadable(err error) bool {
	s := status.Convert(err)
	if s.Code() == codes.Canceled || s.Code() == codes.DeadlineExceeded {
		return false
	}
	return slices.ContainsFunc(unreadableTexts, func(begin string) bool { return strings.HasPrefix(s.Message(), begin) })
}
