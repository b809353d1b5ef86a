// Package workers runs the shell of a controller: keys wait in a queue, workers handle them.
//
// A controller decides in a pure function and acts in its handle function; this package gives
// handle one key at a time:
//
//   - Exclusion: no two workers handle the same key at the same time. A key that is added
//     meanwhile is handled again afterwards.
//   - Priority: news ([Pool.Add]) comes before replays ([Pool.AddReplay]), which are the first
//     list and the resyncs of a cache. One turn in 16 is for a replay, so that news cannot keep
//     it waiting for ever.
//   - Backoff: a key whose handling fails is handled again after a pause that doubles with each
//     failure, and at once when it is added as news; a replay does not end the pause. A conflict
//     with another writer is no failure: the key is handled again at once, on a new read. After
//     five conflicts in a row the next conflict is a failure.
//   - Retry-After: the pause after a failure is not shorter than the API server asks for, up to an hour.
//   - Panics of handle are failures.
//
// [Pool.Run] returns after ctx has ended and all workers have stopped. An idle pool has no timer
// and polls nothing.
package workers
