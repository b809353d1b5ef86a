// Package inflight lets a caller return soon after its context ends, while a system call that
// the caller has begun is still in flight.
//
// # Glossary
//
//   - In flight: a call that the kernel has not completed. It cannot be interrupted.
//   - Work: the calls of one operation, in a goroutine of their own.
//   - Grace: the time for which a caller waits for its work after the end of its context.
//   - Claim: the right of work to change the mount table. Work acquires the claim before its
//     change, or the caller revokes it; never both.
//   - Revoked work: it must end without a change.
//   - Lease: a lock with several holders, for instance a caller and a call in flight. The
//     last holder to release it unlocks.
//
// # Guarantees
//
//   - A caller returns within [Grace] of the end of its context, or within 2.5 times of it
//     where work waits for a call of its own.
//   - A context without an end costs no goroutine.
//   - After an error that is not uncertain, work changes the mount table no more.
package inflight
