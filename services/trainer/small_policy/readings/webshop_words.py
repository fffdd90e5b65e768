"""The words of the generator's simple style, so that the small policy reads its pages phrase by phrase."""


def listed(text: str) -> tuple[str, ...]:
    """The phrases of a text that has commas between them."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(","))


KINDS = listed("""
    accent chair~s, action camera~s, air fryer~s, android tablet~s, anklet~s, area rug~s, audio cable~s, baby
    monitor~s, backpack~s, baking sheet~s, bar stool~s, bath mat~s, bath towel set~s, beard trimmer~s, bed
    frame~s, bedspread~s, black tea, blender~s, bluetooth speaker~s, body butter, body lotion~s, body mist~s,
    body scrub~s, body wash~es, bookcase~s, boombox~es, breakfast cereal, brownies, buffet cabinet~s, bunk
    bed~s, business laptop~s, cake mix~es, camcorder~s, canned beans, canvas print~s, car charger~s, charm
    bracelet~s, chicken soup, choker necklace~s, clutch purse~s, coconut water, coffee beans, coffee maker~s,
    coffee mug~s, coffee pods, coffee table~s, comforter~s, computer desk~s, console table~s, cookies, corner
    desk~s, cosmetic bag~s, counter stool~s, crackers, crossbody bag~s, curling iron~s, dash cam~s, daybed~s,
    dental floss, desk chair~s, desktop computer~s, digital camera~s, dining bench~es, dining chair~s, dining
    table~s, door mat~s, drafting chair~s, dresser~s, dried fruit, duvet cover~s, earbud case~s, eau de parfum,
    electric kettle~s, electric shaver~s, end table~s, energy bites, energy drink~s, epilator~s, ethernet
    cable~s, extension cord~s, external hard drive~s, eye cream~s, eyeliner~s, eyeshadow~s, face moisturizer~s,
    face serum~s, facial cleanser~s, facial toner~s, file cabinet~s, fitness tracker~s, flash drive~s, floor
    lamp~s, floor runner~s, food storage container~s, foot cream~s, fruit juice, frying pan~s, futon~s, gaming
    chair~s, gaming desk~s, gaming headset~s, gaming laptop~s, gaming monitor~s, gaming mouse>gaming mice,
    garden bench~es, granola, granola bar~s, green tea, ground coffee, gummy candy, hair conditioner~s, hair
    dryer~s, hair extension~s, hair mask~s, hair oil~s, hair serum~s, hair straightener~s, hair topper~s,
    hammock~s, hand cream~s, hand towel set~s, handbag~s, hard candy, hdmi cable~s, headboard~s, herbal tea, hot
    air brush~es, hot sauce, instant camera~s, instant coffee, jasmine rice, jewelry box~es, karaoke machine~s,
    kids watch~es, lace front wig~s, laundry hamper~s, lemonade, licorice, lipstick~s, liquid foundation, lounge
    chair~s, loveseat~s, lunch box~es, makeup case~s, makeup organizer~s, makeup primer, marshmallows,
    mascara~s, matcha powder, mechanical keyboard~s, memory card~s, men's cargo pants, men's cologne~s, men's
    dress shirt~s, men's henley~s, men's hiking boots, men's jacket~s, men's jeans, men's loafers, men's
    parka~s, men's polo~s, men's running shoes, men's sneakers, men's sweatshirt~s, men's undershirt~s, men's
    vest~s, men's work boots, metal sign~s, mini computer~s, mixed nuts, mouthwash, muffin mix~es, nail polish,
    nightstand~s, number pad~s, oatmeal, office chair~s, ottoman~s, over ear headphones, pancake mix~es, pasta
    sauce, patio chair~s, pendant light~s, pendant necklace~s, phone case~s, photo frame~s, pita chips, plant
    stand~s, platform bed~s, ponytail extension~s, popcorn, porch swing~s, portable monitor~s, portable radio~s,
    potato chips, power bank~s, pretzels, protein bar~s, quilt set~s, recliner~s, rice cakes, rice cooker~s,
    roasting pan~s, running watch~es, safety razor~s, salad dressing~s, sauce pan~s, sectional sofa~s, security
    camera~s, shampoo, sheet mask~s, shoe rack~s, shower curtain~s, smart tv~s, smart watch~es, solid state
    drive~s, soundbar~s, sparkling water, sports drink~s, sports headphones, standing desk~s, storage bin~s,
    storage cart~s, table lamp~s, tablet case~s, throw blanket~s, toiletry bag~s, tooth powder~s, trail mix,
    trash can~s, travel tumbler~s, tv stand~s, usb charging cable~s, vanity light~s, video doorbell~s, video
    projector~s, waffle maker~s, wall charger~s, wall clock~s, wall mirror~s, wall sconce~s, water bottle~s,
    whitening strips, whitening toothpaste, window curtains, wine cabinet~s, wireless charger~s, wireless
    earbuds, wireless keyboard~s, women's ankle boots, women's bathrobe~s, women's blouse~s, women's camisole~s,
    women's cardigan~s, women's dress~es, women's flats, women's hoodie~s, women's jeans, women's jumpsuit~s,
    women's leggings, women's loafers, women's nightgown~s, women's pajama set~s, women's perfume~s, women's
    pullover~s, women's pumps, women's sandals, women's shorts, women's skirt~s, women's slippers, women's
    sweater~s, women's tunic~s, wrist watch~es, writing desk~s
""")
"""Kinds of product. What comes after ``~`` makes the plural; after ``>`` stands the whole of it."""

ATTRIBUTES = listed("""
    aaa batteries, activated carbon, adjustable strap, alcohol free, all seasons, almond oil, aloe vera,
    aluminum alloy, aluminum case, aluminum frame, aluminum shell, ancient grain, ankle strap, ankle support,
    antioxidant boost, arch support, argan oil, artificial flavors, assembly required, audio alarm, auto
    shutoff, avocado oil, baby hair, baby shower, back yard, backlit keyboard, bad breath, baking soda, bamboo
    fabric, bamboo frame, beard care, biotin complex, bird watching, birth stone, birthday party, blu ray, body
    care, box spring, bpa free, brown sugar, brushed nickel, bulbs included, business travel, butt lifting,
    button closure, caffeine free, carbon fiber, card slots, carry bag, case friendly, cast iron, ceiling
    mounted, ceramic blade, ceramic coating, chest pocket, classic fit, clear window, clinically proven, clip
    attachment, closed toe, cloud storage, coarse hair, cocoa butter, cocoa nibs, coconut oil, cold brew, color
    safe, contemporary style, core processor, cosplay party, cotton blend, cotton fabric, cotton filling, cotton
    lining, cotton spandex, crew neck, cruelty free, cubic zirconia, curly hair, daily makeup, daily wear, dairy
    free, damaged hair, dark circles, dark roast, dark spots, data backup, date night, dead skin, deep bass,
    dermatologist tested, dietary fiber, digital photography, digital zoom, dimmer switch, dining room,
    dishwasher safe, dorm rooms, double sided, double wall, down alternative, drawstring hem, drawstring waist,
    dry clean, dry skin, dual band, dual speakers, dust proof, easy apply, easy assemble, easy carry, easy
    clean, easy hang, easy install, easy match, easy prepare, easy use, eco friendly, elastic closure, elastic
    hem, elastic waist, electrolyte boost, energy efficient, engineered wood, essential oils, evening party, eye
    makeup, fade resistant, fair trade, family dinner, fast charging, fast heating, faux leather, fine hair,
    fine lines, fleece lining, floral notes, fluoride free, foot rest, fragrance free, freezer safe, fresh
    breath, freshly baked, front door, front porch, fruity notes, fully assembled, gaming console, gaming desk,
    genuine leather, genuine suede, gift basket, gift box, gift giving, glass bottle, glass doors, glass jar,
    glass lid, glass shade, glossy finish, gluten free, gold plated, green tea, guest room, guide combs, gym
    workout, hair growth, hair loss, hair removal, hair salon, hand crafted, hand made, hand painted, hand
    washable, hands free, hdmi port, heart sensor, heat friendly, heat resistant, heavy duty, heavy people,
    height adjustable, high contrast, high definition, high density, high heel, high performance, high protein,
    high quality, high resolution, high speed, high waist, highly pigmented, holiday baking, home decor, home
    office, home security, home theater, home use, hot drinks, hot sleepers, hotel travel, human hair,
    hyaluronic acid, hypo allergenic, image stabilization, individually wrapped, jojoba oil, keto friendly,
    kettle cooked, kickstand ring, kids room, kosher certified, lace closure, large capacity, laundry room, leak
    proof, led display, led lights, light roast, light weight, linen shade, linen upholstery, live streaming,
    living room, lobster clasp, local storage, lockable wheels, locking lid, long handle, long lasting, long
    sleeve, loose fit, loose leaf, low acid, low calorie, low carb, low fat, low latency, low sodium, low sugar,
    lumbar support, machine washable, magnetic charger, magnetic clasp, magnetic closure, makeup mirror, marble
    top, matte finish, mature skin, medium density, medium roast, memory foam, mesh fabric, mesh pockets, metal
    buckle, metal frame, metal handles, metal legs, mid century, mildew resistant, mobile phone, moisture
    control, moisture wicking, mother day, motion activated, movie night, nail art, natural fiber, natural
    flavors, natural ingredients, natural looking, needle sleeve, nickel free, night vision, no preservatives,
    noise cancelling, non gmo, non slip, non stick, nut free, nylon braid, nylon spandex, office work, oil
    bronze, oil free, oily hair, oily skin, olive oil, open toe, optical zoom, oral hygiene, outdoor camping,
    outdoor hiking, output protection, oven baked, oven safe, overload protected, paraben free, parking lot,
    picnic lunch, plant based, plug play, pointed toe, polyester cotton, polyester fabric, polyester spandex,
    printing technology, professional grade, quad core, quick breakfast, quick drying, quick release, quiet
    keys, raised edges, ready eat, ready hang, real butter, real fruit, rechargeable battery, recipe book,
    recyclable cans, reduced fat, reflective strips, regular fit, relaxed fit, remote control, removable
    dividers, removable liner, removable strap, resealable bag, resin wicker, ribbed cuffs, rose water, round
    neck, rubber backing, rubber jacket, rubber sole, salicylic acid, salon grade, school lunch, school
    students, scratch resistant, sea salt, seat cushions, security camera, sensitive skin, sensitive teeth, shea
    butter, shelf stable, shock absorbing, shock proof, short hair, short handle, short sleeve, shoulder strap,
    silicone grip, silver plated, simple ingredients, single origin, single serve, skin friendly, sleep
    tracking, slim fit, small apartments, small kitchens, small rooms, small spaces, smudge proof, soft
    silicone, soft toe, solar panel, solid cedar, solid wood, soy free, space saving, spray bottle, squeeze
    bottle, stage makeup, stain resistant, stainless steel, steel frame, steel slats, steel toe, step counting,
    stereo sound, stir fry, storage drawer, storage drawers, storage shelf, storage shelves, storage space,
    straw lid, stretch fabric, stretch marks, study room, sugar free, sulfate free, summer beach, super soft,
    surround sound, sweat proof, synthetic hair, synthetic sole, tangle control, tarnish resistant, tea bags,
    tea tree, teen girls, tempered glass, thick hair, timer function, titanium coating, touch control, touch
    screen, travel size, tummy control, type c, ultra hd, usb port, usda organic, uv protected, valentine day,
    vegan friendly, velvet seat, velvet upholstery, video editing, vitamin c, vitamin e, voice search, waffle
    weave, wall mounted, walnut finish, water proof, water resistant, weather proof, weather resistant, wedding
    party, white finish, whole grain, wide angle, wide feet, wind proof, winter sports, wireless bluetooth,
    wireless charging, wood frame, wood slats, wooden handle, wooden handles, wooden legs, woody notes, yellow
    teeth, yoga workout, young adults, young kids, zipper closure
""")
"""What products have, are, or are for."""

VALUES = listed("""
    1 head, 1 oz, 1 tb, 10, 10 ft, 10 in, 10 pack, 100 in, 11, 12, 12 ct, 12 in, 12 oz, 128 gb, 12x16, 14 in, 15
    ct, 15 ft, 16 in, 16 oz, 16x24, 18 in, 2 head, 2 lb, 2 oz, 2 pack, 2 tb, 20 ct, 20 in, 20 oz, 20x30, 22 in,
    24 in, 24x36, 25 ft, 256 gb, 3 ft, 3 head, 3 oz, 3 pack, 30 in, 30 oz, 32 gb, 32 in, 36 in, 38 mm, 4 ct, 4
    oz, 4 pack, 4 pcs, 40x60, 42 in, 42 mm, 43 in, 44 mm, 48 in, 5, 5 head, 5 lb, 5 oz, 50 ft, 50 in, 512 gb, 55
    in, 6, 6 ct, 6 ft, 6 pack, 6 pcs, 60 in, 64 gb, 65 in, 7, 7 in, 75 in, 8, 8 ct, 8 oz, 8 pcs, 8x10, 9, 9 in,
    almond, amber, ankle length, apple pie, armless, au, banana, barbecue, basic, basil, beige, berry, black,
    blonde, blue, bronze, brown, bubblegum, buffalo, burgundy, caramel, cedar, chai, charcoal, cheddar, cherry,
    cherry blossom, chestnut, chocolate, cinnamon, citrus, clear, coconut, copper, coral, cream, cropped, curry,
    deluxe kit, espresso, eu, eucalyptus, everything, for her, for him, for kids, for teens, full, garlic,
    ginger, glitter, gold, green, grey, hazelnut, honey, honey mustard, ivory, jalapeno, jasmine, khaki, king,
    large, lavender, lemon, lime, magnetic, mango, maple, medium, men, mild, mint, mixed berry, mocha, mushroom,
    natural, navy, no card, nude, oak, ocean breeze, olive, orange, original, pair, peach, peanut butter,
    petite, pewter, pink, plum, purple, queen, ranch, raspberry, red, regular, roasted pepper, rose, ruby, rust,
    sample, sand, sea salt, silver, single, small, smoked, sour cream, spicy, starter bundle, strawberry, tall,
    taupe, teal, teriyaki, toddler, truffle, twin, uk, unscented, upgraded, us, vanilla, wallet, walnut,
    watermelon, white, wireless, with case, with cord, with headrest, with massage, with mic, women, xl, xxl,
    yellow, youth
""")
"""Option values."""

GROUPS = listed("""
    color, fit type, flavor name, plug type, scent, size, style
""")
"""Names of option groups."""

LOOKS = listed("""
    absorbent, abstract, advanced, authentic, bohemian, bold, breathable, bright, brightening, casual, chewy,
    classic, clear, comfortable, compact, cordless, cozy, crisp, crispy, crunchy, cute, daily, dainty,
    decorative, delicate, delicious, digital, durable, elegant, ergonomic, farmhouse, fizzy, flat, flexible,
    floral, fluffy, foldable, fresh, gentle, geometric, hydrating, industrial, insulated, ionic, large, light,
    lightweight, long, low, magnetic, mild, mini, minimalist, modern, moisturizing, narrow, nourishing, organic,
    oversized, plaid, plain, pleated, plush, portable, powerful, precise, premium, professional, quiet, quilted,
    raw, reliable, retro, reversible, rich, roasted, rolling, round, rugged, rustic, seamless, shimmer, silky,
    sleek, slim, smart, smooth, soft, soothing, sparkling, sporty, stackable, straight, stretchy, striped,
    sturdy, swivel, tall, tasty, thick, thin, traditional, trendy, tufted, universal, upholstered, vegan,
    velvet, vintage, volumizing, walking, warm, wavy, wide, wireless
""")
"""Adjectives of descriptions."""

DETAILS = listed("""
    adjustable angle, adjustable cap, adjustable chain, angled plug, applicator brush, bass button, belt loops,
    bold seasoning, bow tie, braided cord, button back, cable holes, cable ties, camera cutout, cane syrup,
    carry handle, charging stand, charging station, chia seeds, cinnamon swirl, citrus notes, cleaning brush,
    color filters, color lights, contrast stitching, cool air button, corner ties, cracked pepper, cream
    filling, cup holders, curved back, dark roots, digital display, double hem, dual microphones, dust cap,
    engraved initials, extra battery, extra fan, extra legs, extra lid, fingerprint reader, floral notes, floral
    print, folded collar, front camera, front pocket, fruit juice, fruit pulp, full bangs, garden herbs, gift
    box, gift wrap, glass jar, gold accents, hanging hole, headphone hook, heart shape, herbal extracts, hidden
    handles, holiday tin, honey finish, infrared light, key ring, label holders, lace trim, leaf pattern,
    leveling feet, magnetic lid, maple glaze, marble base, metal bracket, metal buckle, metal cap, metal case,
    metal hooks, monitor riser, multiple pockets, music button, musk base, nailhead trim, nut butter, oat milk,
    open base, padded armrest, padded collar, padded ear cushions, padded insole, peptide mix, phone alerts,
    piped edges, polished finish, pour spout, printed logo, pull chain, pull tab, pump bottle, pumpkin seeds,
    real cheese, removable insole, removable tray, ripe tomatoes, roasted corn, rounded corners, ruffle hem,
    screw lid, side hooks, side part, side pockets, side zipper, silk protein, slim tip, soft hinges, soft
    lining, sprinkle topping, status light, steel tin, sunflower seeds, swing arm, swivel cord, tassel trim,
    throw pillows, travel pouch, tuning knob, velvet pouch, view window, vitamin mix, warming plate, weather
    alerts, wide base, wide collar, wrist rest
""")
"""Things that descriptions and features mention."""

BRANDS = listed("""
    avoro, belvio, brenko, caldera, corvex, dalmina, dorwin, eldory, elvana, fenwix, florvia, galdor, gorvane,
    halvex, hestio, ilmara, ivorik, jalinto, jorvik, kaldune, kestro, lavindo, lorvane, lumexa, maldero, merova,
    mirdale, nalvo, nestora, norvik, olvera, orlisa, palvino, pexora, quendo, quilvia, ravello, rivosa, rondex,
    salvero, selvano, solmira, tandexo, tavira, torvel, ulmero, ultavo, valdora, vexano, virelo, wexford,
    wolmara, xalvo, xerina, yelmora, yorvex, zafiro, zelvano, zintara, zorlex
""")
"""First words of titles."""
