"""The sentences of the rich style. None of them names an attribute, so that only what a product has is said of it."""

from services.env_server.environments.webshop.generator.kinds import Place

OPENINGS = (
    "Meet the {look} {kind} from {brand}.",
    "With this offer we wanted to make everyday life easier, and {described} was the answer.",
    "{brand} brings you {described} at a fair price.",
    "Looking for something {look}? Here {brand} does the job.",
    "Among all {many}, this is the {look} choice.",
    "Our {look} {kind} will keep the promise that the photos make.",
)
SENTENCES = {
    Place.IS: (
        "The {kind} {is_} {it}.",
        "{They} {is_} {it}, as our customers asked.",
        "Because {they} {is_} {it}, you save time and trouble.",
        "We made sure that {they} {is_} {it}.",
        "You will notice at once: {it} from the first day on.",
    ),
    Place.WITH: (
        "Sold with {it}.",
        "Made with {it} for a better result.",
        "Thanks to the version with {it}, you can rely on it every day.",
        "We chose a design with {it} after many tests.",
        "Enjoy the comfort of {described_alone} with {it}.",
    ),
    Place.FOR: (
        "A good match for {it}.",
        "Many people chose it for {it}.",
        "Made for {it} and much more.",
        "Give it as a present or keep it for {it}.",
    ),
}
DETAIL_SENTENCES = (
    "The {it} will complete the picture.",
    "Note the {it} in our photos.",
    "A practical extra: {it}.",
    "We also thought of the {it}.",
)
CLOSINGS = (
    "Please check the measurements before you order.",
    "If anything is wrong, write to us and we will answer within one day.",
    "Colors may look a little different on your screen.",
    "Packed with care and sent in a plain box.",
    "Every parcel with {kind} is inspected twice before it leaves our warehouse.",
    "Our support team is there for you around the clock.",
)
HEADINGS = {
    Place.IS: ("{It} design: ", "{It} - ", "Truly {it}: ", "Why {it}? "),
    Place.WITH: ("With {it}: ", "{It}: ", "Featuring {it} - ", "Now with {it}: "),
    Place.FOR: ("Great for {it}: ", "For {it} - ", "Perfect for {it}: ", "Ideal for {it}: "),
}
PROMISES = (
    "a difference that you can feel from the first day.",
    "one thing less to worry about.",
    "tested by our own team again and again.",
    "this is what sets the {kind} apart from cheaper ones.",
    "a small point that matters in daily use.",
    "you asked for it and we listened.",
    "the reason why so many customers come back.",
)
STORY = (
    "We are a small team that has made things for the home and for people on the move since the very first day.",
    "Our designers look at every sample by hand, and only what they would give to their own families is sold.",
    "The materials are bought from suppliers whom we have known for many years.",
    "After a long search we found a workshop that shares our idea of good craft.",
    "What you see in the photos is what you will find when you open the parcel.",
    "No tools, no special knowledge and no patience are needed to enjoy it.",
    "A short guide with pictures explains the first steps and answers the usual questions.",
    "Think of a birthday, a housewarming or an anniversary: this makes a present that will be remembered.",
    "It goes with whatever you own already, and it does not ask for attention.",
    "Our last version was loved by thousands of buyers, and we have improved it in many details since then.",
    "Compare it with similar offers: you will see where the difference lies.",
    "Please allow one or two centimeters of deviation, because everything is measured manually.",
    "Monitors differ, so the shade that you receive may be slightly lighter or deeper than it appears.",
    "Keep the box for a few days, in case you would like to exchange it for another version.",
    "The price includes taxes, and there are no hidden costs whatsoever.",
    "We ship from several warehouses, so most parcels arrive earlier than promised.",
    "Should a part be missing, one message is enough and a replacement is on its way.",
    "Reviews help us to get better: tell us what you like about the {kind} and what you do not.",
    "Every season brings new ideas, but {look} {many} will always be in fashion.",
    "For questions about the {kind}, look at the page of {brand} or write to us.",
    "At {brand} we believe that the simple answer is usually the right one.",
    "The team of {brand} wishes you a lot of pleasure with your purchase.",
    "If you want to order {many} for a whole group, ask for an offer that suits your budget.",
    "Whoever is used to {look} {many} will hardly settle for anything else.",
)
"""What long descriptions add: about the seller, and about buying in general."""
MEASURES = "Product weight: {weight} pounds. Outer dimensions: {length} x {width} x {height} inches."
