// Package voldata encodes and decodes the files vol_data.json, in which a kubelet and package csi
// describe the CSI volumes of a node.
//
// # Glossary
//
//   - data: the content of one file, a JSON object of strings. The kubelet's keys name the volume.
//   - call: the last call of the driver for the volume, under a key of this module, which a
//     kubelet ignores. It holds the arguments without secrets, so that a later run of the program
//     repeats the same call.
//   - boot: the running system since its last start. Mounts, and so calls, do not outlive it.
//
// The package reads and writes no file. Files are untrusted input.
package voldata
