package record

import "sync"

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Borrow returns a reader, for calls that read few records. [Reader.Return] makes its buffer
// available to other callers.
func Borrow() *Reader { return readers.Get().(*Reader) }

// Return ends the use of a borrowed reader and of its records.
func (r *Reader) Return() { readers.Put(r) }
