module my-project

go 1.24

require github.com/wfhost/wfhost/guests/go v0.0.0

// A copy of the SDK that this version of wfhost was made with.
replace github.com/wfhost/wfhost/guests/go => ./wfhost
