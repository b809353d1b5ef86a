package nfsserver

import "bytes"

// The kernel's message about clients is struct cld_msg_v2 of linux/nfsd/cld.h: its
// version, a command, a status of two bytes, a number of four, and what depends on
// the command.
const (
	commandAt, statusAt, bodyAt = 1, 2, 8

	getVersion = 5
	version    = 2
)

// remember answers such a message: what the kernel told is stored, and a client
// that it asks for is known. Since nothing is named in answer to the server's
// start, it waits for nobody.
func remember(message []byte) []byte {
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
