// Package require has assertions for contracts in public packages, such as mount.Interface's
// in mounttest. They have the names and arguments of testify's package of the same name.
// Importing testify, or testing, would link both into each program that uses a fake.
package require
