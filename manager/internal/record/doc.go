// Package record describes volumes in files, so that a later run of the manager finds them.
//
// # Glossary
//
//   - record: the file of a volume that is, or may be, attached or mounted for all pods
//   - broken record: a file that is unreadable or invalid; its volume may exist
//   - directory of records: <root>/plugins/volumekit.io/manager/volumes
//
// A record is written before its volume may exist and removed once the volume is certainly
// absent: a record may describe an absent volume, but no such volume lacks a record. A file is
// replaced as a whole, and synced, so that a power failure leaves the old or the new record.
package record
