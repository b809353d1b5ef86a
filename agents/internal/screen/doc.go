// Package screen shows the volumes of a manager as the agents do: a table on a
// terminal, and a line for each event on other outputs.
package screen
