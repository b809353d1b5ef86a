package nfsserver

import "bytes"

// The kernel's message about clients is struct cld_msg_v2 of linux/nfsd/cld.h: version,
// command, a status of two bytes, a number of four, and data of the command.
const (
	commandAt, statusAt, bodyAt = 1, 2, 8

	getVersion = 5
	version    = 2
)

// answerTracking answers a message of client tracking: it accepts every record, and reports every
// client as recorded. It names no client at the server's start, so the server waits for
// none.
func answerTracking(message []byte) []byte {
	answer := bytes.Clone(message)
	if len(answer) <= bodyAt {
		return nil
	}
	answer[statusAt], answer[statusAt+1] = 0, 0
	if answer[commandAt] == getVersion {
		answer[bodyAt] = version
	}
	return answer
}
