// Package contract is the contract of volume.VolumePlugin: each promise of its documentation as
// a test. Package volumetest runs it. It imports neither testing nor testify, because
// volumetest does not.
package contract
